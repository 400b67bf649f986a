"""A Prometheus server of one's own, as Debian packages it: it scrapes ports of this machine and answers queries."""

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from debian import environment, program
from tenure.testing.ports import free_port

PATIENCE = 60.0
REFUSED = (400, 422)
"""What it answers to a query that it does not understand, or cannot work out."""


class PrometheusServer:
    """It has its data in a folder that is there, has seen every port when the block begins, and ends with it."""

    def __init__(self, folder, ports, every):
        self._port, self._log = free_port(), folder / "prometheus.log"
        self._address = f"http://127.0.0.1:{self._port}"
        self._targets = [f"127.0.0.1:{port}" for port in ports]
        settings = {
            "global": {"scrape_interval": every, "scrape_timeout": every},
            "scrape_configs": [{"job_name": "tenure", "static_configs": [{"targets": self._targets}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(settings))
        self._command = [
            program("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=warn",
        ]

    def __enter__(self):
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()
            )
        try:
            self._wait_for_scrapes()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()

    def query(self, expression):
        """The series of this moment."""
        return self._ask("query", query=expression)

    def query_range(self, expression, start, end, step):
        """The series between two moments, a value every `step` seconds."""
        return self._ask("query_range", query=expression, start=start, end=end, step=step)

    def _ask(self, what, **parameters):
        url = f"{self._address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in REFUSED:
                    raise
                msg = f"Prometheus refuses {parameters['query']}: {json.load(error)['error']}"
            raise ValueError(msg) from None

    def _wait_for_scrapes(self):
        deadline = time.monotonic() + PATIENCE
        while not self._has_scraped():
            if self._process.poll() is not None or time.monotonic() > deadline:
                msg = f"Prometheus did not scrape {self._targets}: {self._log.read_text()}"
                raise RuntimeError(msg)
            time.sleep(0.02)

    def _has_scraped(self):
        try:
            return len(self.query("up == 1")) == len(self._targets)
        except OSError:
            return False
