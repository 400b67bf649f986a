"""Waiting for facts, never for time."""

import time
import urllib.error
import urllib.request


def until(done, patience=30.0):
    """Look again and again; how long that takes is no part of any promise."""
    deadline = time.monotonic() + patience
    while not (answer := done()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return answer


def get(port, path, **headers):
    """The code and the text of an answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
