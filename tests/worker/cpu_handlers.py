"""Handlers that run in processes of their own: they are found by name, so they stand in a module."""

import os
import signal
import sys
import time
from pathlib import Path

from tenure import PermanentError, RescheduleError


def where(input: dict) -> dict:
    return {"pid": os.getpid(), "input": input}


def double(number: int) -> int:
    return 2 * number


def exits(input):
    os._exit(3)


def leaves(input):
    sys.exit("enough")


def is_killed(input):
    os.kill(os.getpid(), signal.SIGKILL)


def fails(input):
    raise ValueError(f"no such thing: {input}")


def fails_for_good(input):
    raise RuntimeError("wrapped") from PermanentError("never again")


def later(input):
    raise RescheduleError(60)


def returns_an_object(input):
    return object()


def never_ends(file: str) -> None:
    Path(file).write_text(str(os.getpid()))
    while True:
        time.sleep(60)


def interrupts_itself(input):
    raise KeyboardInterrupt


def waits_for_a_door(folder: str) -> str:
    (Path(folder) / "pid").write_text(str(os.getpid()))
    while not (Path(folder) / "door").exists():
        time.sleep(0.005)
    return "finished"
