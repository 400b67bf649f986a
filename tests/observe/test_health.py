"""Health: alive while the loop turns and leases are renewed, ready while the store answers."""

import asyncio
import contextlib
import os
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
from asking import get
from prometheus_client import CollectorRegistry

from tenure import InvalidInput, Worker
from tenure.observe.health import Health
from tenure.observe.server import Server
from tenure.observe.watchdog import Family, Note, Systemd, Watchdog
from tenure.queue import Queue
from tenure.stores.memory import MemoryStore
from tenure.testing import Fault, FaultyStore


async def fact(question):
    """Ask from a thread, as the server does, until the answer is yes."""
    async with asyncio.timeout(30):
        while not (answer := await asyncio.to_thread(question)):
            await asyncio.sleep(0.01)
        return answer


@pytest.fixture
async def working(queue):
    """A worker at work, and the health of it."""
    worker = Worker(queue, worker_id="w1", lease=0.3)

    @worker.task("blocks")
    async def blocks(input):
        time.sleep(input)

    async with Health(worker, stuck_after=0.6) as health:
        running = asyncio.create_task(worker.run())
        yield worker, health
        worker.stop()
        await running


async def test_a_worker_at_work_is_alive_and_ready(working):
    _, health = working
    await fact(lambda: health.not_ready() is None)
    assert health.not_live() is None


async def test_a_worker_whose_loop_is_stuck_is_not_alive_though_its_leases_are_renewed(queue, working):
    _, health = working
    with Server("127.0.0.1:0", CollectorRegistry(), health) as server:
        await fact(lambda: get(server.port, "/livez") == (200, "ok\n"))
        seen = asyncio.create_task(asyncio.to_thread(_first_trouble, server.port))
        await queue.submit("blocks", 2.0)
        code, text = await seen
        assert code == 503
        assert "the event loop has not turned" in text
        await fact(lambda: get(server.port, "/livez")[0] == 200)
    assert (await queue.list()).tasks[0].attempts == 0


def _first_trouble(port):
    while True:
        code, text = get(port, "/livez")
        if code != 200:
            return code, text
        time.sleep(0.02)


async def test_a_worker_that_renews_no_leases_is_not_alive(working):
    worker, health = working
    await fact(lambda: health.not_ready() is None)
    await worker._run.heartbeat.stop()
    assert "no lease has been renewed" in await fact(health.not_live)


async def test_a_store_that_is_away_makes_a_worker_not_ready_but_leaves_it_alive():
    store = FaultyStore(
        MemoryStore(), plan=[Fault("get", "before"), Fault("claim", "before"), Fault("renew", "before")]
    )
    worker = Worker(Queue(store))
    worker.task("greet")(lambda _: None)
    async with Health(worker) as health:
        running = asyncio.create_task(worker.run())
        assert "of claim was not made" in await fact(
            lambda: (reason := health.not_ready()) and "cannot" in reason and reason
        )
        assert health.not_live() is None
        store.heal()
        await fact(lambda: health.not_ready() is None)
        worker.stop()
        assert health.not_ready() == "it is stopping"
        await running


async def test_a_worker_that_can_read_but_not_claim_is_not_ready():
    store = FaultyStore(MemoryStore(), plan=[Fault("claim", "before")])
    worker = Worker(Queue(store))
    worker.task("greet")(lambda _: None)
    async with Health(worker) as health:
        running = asyncio.create_task(worker.run())
        assert "it cannot claim" in await fact(lambda: (reason := health.not_ready()) and "cannot" in reason and reason)
        store.heal()
        await fact(lambda: health.not_ready() is None)
        worker.stop()
        await running


async def test_an_error_of_any_kind_makes_a_worker_not_ready_and_ends_no_watch(queue, working):
    _, health = working
    await fact(lambda: health.not_ready() is None)
    healthy = queue.store.get

    async def broken(ids):
        raise OSError(24, "Too many open files")

    queue.store.get = broken
    assert "Too many open files" in await fact(health.not_ready)
    queue.store.get = healthy
    await fact(lambda: health.not_ready() is None)


async def test_a_worker_whose_loop_is_blocked_does_not_blame_the_store(queue, working):
    _, health = working
    await fact(lambda: health.not_ready() is None)
    asking = asyncio.create_task(asyncio.to_thread(_first_reason, health))
    await queue.submit("blocks", 4.0)
    assert "the event loop has not turned" in await asking


def _first_reason(health):
    while (reason := health.not_ready()) is None:
        time.sleep(0.02)
    return reason


class Signs:
    live = ready = None
    stopping = False

    def not_live(self):
        return self.live

    def not_ready(self):
        return self.ready

    def is_stopping(self):
        return self.stopping


def test_the_server_answers_with_metrics_and_health():
    signs, registry = Signs(), CollectorRegistry()
    with Server("127.0.0.1:0", registry, signs) as server:
        assert get(server.port, "/metrics")[0] == 200
        assert get(server.port, "/readyz") == (200, "ok\n")
        signs.ready = "the store is away"
        assert get(server.port, "/readyz?verbose=1") == (503, "the store is away\n")
        assert get(server.port, "/livez")[0] == 200
        assert get(server.port, "/other")[0] == 404
        assert "# EOF" in get(server.port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")[1]


def test_a_port_that_is_taken_or_is_none_is_refused_with_words():
    with (
        Server("127.0.0.1:0", CollectorRegistry(), Signs()) as server,
        pytest.raises(InvalidInput, match=r"Cannot listen on .* Give another port"),
    ):
        Server(f"127.0.0.1:{server.port}", CollectorRegistry(), Signs())
    with pytest.raises(InvalidInput, match="'http' is no port for metrics"):
        Server("http", CollectorRegistry(), Signs())


def test_an_address_may_be_of_ipv6():
    with (
        Server("[::1]:0", CollectorRegistry(), Signs()) as server,
        socket.create_connection(("::1", server.port), timeout=30) as asking,
    ):
        asking.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        assert asking.makefile("rb").readline() == b"HTTP/1.0 200 OK\r\n"
    with pytest.raises(InvalidInput, match="is no port for metrics"):
        Server("::1:9000", CollectorRegistry(), Signs())


@contextlib.contextmanager
def idle_connections(port, count):
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        yield


def test_connections_that_say_nothing_take_a_bounded_number_of_threads():
    before = threading.active_count()
    with Server("127.0.0.1:0", CollectorRegistry(), Signs()) as server, idle_connections(server.port, 100):
        # Connections are met in their order: this one is answered or turned away after all of those.
        assert not _answers(server.port)
        assert threading.active_count() - before <= 40


def test_connections_that_say_nothing_make_room_after_a_while(monkeypatch):
    monkeypatch.setattr("tenure.observe.server._Handler.timeout", 0.2)
    with Server("127.0.0.1:0", CollectorRegistry(), Signs()) as server, idle_connections(server.port, 100):
        deadline = time.monotonic() + 30
        while not _answers(server.port):
            assert time.monotonic() < deadline


def _answers(port, path="/readyz"):
    try:
        return get(port, path) == (200, "ok\n")
    except OSError:
        return False


def test_who_hangs_up_is_no_news_and_what_cannot_be_answered_is_one_record(caplog, capfd):
    class Broken(Signs):
        def not_live(self):
            raise RuntimeError("mine")

    with Server("127.0.0.1:0", CollectorRegistry(), Broken()) as server:
        assert not _answers(server.port, "/livez")
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as leaving:
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            leaving.sendall(b"GET /readyz HTTP/1.0\r\n")
        assert get(server.port, "/readyz")[0] == 200
    (record,) = [record for record in caplog.records if record.name == "tenure.observe"]
    assert "RuntimeError: mine" in caplog.text
    assert record.getMessage() == "a request from 127.0.0.1 could not be answered"
    assert "Traceback" not in capfd.readouterr().err


@pytest.fixture
def manager(tmp_path):
    """What systemd would hear."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        yield manager


def test_systemd_hears_that_a_worker_is_ready_lives_and_stops(manager, tmp_path, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    signs, systemd = Signs(), Systemd.here()
    systemd("stuck", "not yet")
    assert manager.recv(1000) == b"STATUS=stuck"
    with Watchdog(signs, systemd):
        assert manager.recv(1000) == b"WATCHDOG=1"
        assert manager.recv(1000) == b"READY=1\nSTATUS=working"
        assert manager.recv(1000) == b"WATCHDOG=1"
        # While what runs is let finish, not after that.
        signs.stopping = True
        assert b"STOPPING=1" in [manager.recv(1000) for _ in range(4)]
    systemd.stopping()
    systemd("the end", "it is stopping")
    while (heard := manager.recv(1000)) != b"STATUS=the end":
        assert heard != b"STOPPING=1"


def test_without_systemd_nobody_is_told(monkeypatch, tmp_path):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert Systemd.here() is None
    Systemd(str(tmp_path / "nobody"))(None, None)


def test_a_family_is_as_well_as_its_worst_process(tmp_path, monkeypatch):
    pids = [1001, 1002]
    family = Family(tmp_path, lambda: pids, stuck_after=30)
    assert family.not_live() is None
    assert family.not_ready() == "process 1001: it is starting"
    for pid in pids:
        monkeypatch.setattr("os.getpid", lambda pid=pid: pid)
        Note(tmp_path)(None, None)
    assert (family.not_live(), family.not_ready()) == (None, None)
    Note(tmp_path)("stuck", "the store is away")
    assert family.not_live() == "process 1002: stuck"
    assert family.not_ready() == "process 1002: the store is away"
    Note(tmp_path)(None, None)
    old = time.time() - 100
    os.utime(Path(tmp_path / "health-1001.json"), (old, old))
    assert family.not_live() == "process 1001: no sign of life for 100 s"
    pids.clear()
    assert family.not_ready() == "no worker process runs"
