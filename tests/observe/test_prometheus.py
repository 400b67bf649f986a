"""Metrics: every count is the store's, labels are bounded, and gauges come from a bounded look."""

import asyncio
from datetime import timedelta

import pytest
from counting import told_by_metrics, told_by_the_store
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tenure import InvalidInput, PermanentError, RescheduleError, RetryPolicy, Worker, connect
from tenure.cli.observing import Shown, observe
from tenure.observe.figures import look
from tenure.observe.logging import Logging
from tenure.observe.prometheus import DURATIONS, TTLS, WAITS, Prometheus, observe_all
from tenure.queue import Queue
from tenure.stores.base import Want
from tenure.stores.memory import MemoryStore
from tenure.testing import FakeClock, Fault, FaultyStore

METRICS = """
    tasks_submitted_total tasks_completed_total tasks_failed_total tasks_retried_total tasks_dead_total
    tasks_expired_total tasks_cancelled_total leases_lapsed_total task_ttl_seconds task_wait_seconds
    task_duration_seconds tasks_near_expiration queue_depth oldest_pending_seconds running_age_seconds
    store_requests_total store_request_seconds
"""


@pytest.fixture
def registry():
    return CollectorRegistry()


def value(registry, name, **labels):
    return registry.get_sample_value(f"tenure_{name}", labels)


async def test_the_metrics_of_the_design_are_there(registry, queue):
    await Prometheus(registry).look(queue)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    there = {family.name for family in families}
    assert {f"tenure_{name.removesuffix('_total')}" for name in METRICS.split()} <= there


def test_the_names_of_other_monitors_can_be_kept_by_a_prefix(registry):
    Prometheus(registry, prefix="buquet")
    assert b"buquet_tasks_expired_total" in generate_latest(registry)


def test_two_observers_of_one_registry_share_its_metrics(registry):
    assert Prometheus(registry).metrics is Prometheus(registry).metrics


async def test_a_process_that_never_looks_shows_no_gauge_at_all(registry, queue):
    """A zero of a producer would say that no worker lives and that nothing waits, whatever the workers show."""
    queue.observe(Prometheus(registry))
    await queue.submit("greet")
    shown = {family.name for family in registry.collect() if family.type == "gauge"}
    assert [name for name in shown if not name.endswith("_created")] == []
    await queue.events.look(queue)
    assert value(registry, "workers") == 0
    assert value(registry, "queue_depth", queue="default", status="pending") == 1


def test_buckets_reach_from_milliseconds_to_hours_and_from_seconds_to_months():
    for buckets, shortest, longest in ((DURATIONS, 0.001, 6 * 3600), (TTLS, 1, 180 * 86400), (WAITS, 0.001, 86400)):
        assert list(buckets) == sorted(set(buckets))
        assert (buckets[0], buckets[-1] >= longest) == (shortest, True)


async def test_the_counters_of_a_worker_are_there_before_anything_happens(registry):
    """Prometheus sees a counter rise only if it has seen it before."""
    async with connect("memory://") as queue:
        queue.observe(Prometheus(registry))
        worker = Worker(queue, queues=("default", "mail"))
        worker.task("job")(lambda _: None)
        assert await worker.run(until_idle=True) == 0
    for counter in ("tasks_completed_total", "tasks_dead_total", "tasks_expired_total", "leases_lapsed_total"):
        for name in worker.queues:
            assert value(registry, counter, task_type="job", queue=name) == 0
            assert value(registry, "tasks_failed_total", task_type="job", queue=name, reason="lapsed") == 0


async def test_counters_tell_what_the_store_tells(registry):
    async with connect("memory://") as queue:
        queue.observe(Prometheus(registry))
        worker = Worker(queue, retry=RetryPolicy(base=0, jitter=0, max_attempts=3))

        @worker.task("mixed")
        async def mixed(input, context):
            match input, context.attempt:
                case "fails", _:
                    raise ValueError
                case "breaks", _:
                    raise PermanentError
                case "flaky", 1:
                    raise ValueError
                case "again", _ if not context.task.reschedules:
                    raise RescheduleError(delay_seconds=0)

        for number, kind in enumerate(["works", "fails", "breaks", "flaky", "again", "expires", "cancelled"] * 3):
            ttl = 0 if kind == "expires" else None
            task = await queue.submit("mixed", kind, ttl=ttl, queue="default" if number % 2 else "mail")
            if kind == "cancelled":
                await queue.cancel(task.id)
        worker.queues = ("default", "mail")
        await worker.run(until_idle=True)
        dead = (await queue.list("dead")).tasks[0]
        await queue.retry(dead.id)
        await worker.run(until_idle=True)
        expected = told_by_the_store([task async for task in queue.scan()])
        depth = {status.value: count for status, count in (await queue.counts()).items()}
    assert told_by_metrics(registry) == expected
    assert expected["tasks_dead_total", "mixed", "mail"] > 0
    for status, count in depth.items():
        shown = sum(value(registry, "queue_depth", queue=name, status=status) for name in ("default", "mail"))
        assert shown == count, status


@pytest.mark.parametrize("seed", range(5))
async def test_counters_agree_with_a_store_that_loses_calls_and_answers(registry, seed):
    # A claim whose answer is lost may have expired tasks that nobody can be told of; every other answer can be lost.
    lossy = [Fault(method, kind, probability=0.15) for method in ("insert", "swap") for kind in ("before", "after")]
    rest = [Fault(method, "before", probability=0.15) for method in ("claim", "get", "renew", "overdue")]
    store = FaultyStore(MemoryStore(), seed=seed, plan=[*lossy, *rest])
    queue = Queue(store).observe(Prometheus(registry))
    worker = Worker(queue, retry=RetryPolicy(base=0, jitter=0, max_attempts=3), poll=0.01, sweep_interval=0.01)

    @worker.task("flaky")
    async def flaky(input, context):
        if context.attempt <= input % 4:
            raise ValueError

    async def produce():
        for number in range(60):
            try:
                task = await queue.submit("flaky", number, ttl=0 if number % 10 == 9 else None)
                if number % 10 == 8:
                    await queue.cancel(task.id)
            except ConnectionError:
                pass

    await asyncio.gather(produce(), worker.run(max_tasks=60))
    store.heal()
    await worker.run(until_idle=True)
    expected = told_by_the_store([task async for task in queue.scan()])
    await queue.close()
    assert told_by_metrics(registry) == expected
    assert {injected.kind for injected in store.injected} == {"before", "after"}


async def test_a_flood_of_types_and_queues_ends_in_one_label(registry):
    async with connect("memory://") as queue:
        queue.observe(Prometheus(registry, max_names=5))
        await queue.submit_many([(f"type-{number}", None, {"queue": f"queue-{number}"}) for number in range(50)])
        await queue.events.look(queue)
    samples = [sample for family in registry.collect() for sample in family.samples]
    types = {sample.labels["task_type"] for sample in samples if "task_type" in sample.labels}
    queues = {sample.labels["queue"] for sample in samples if "queue" in sample.labels}
    assert len(types) == len(queues) == 6
    assert value(registry, "tasks_submitted_total", task_type="other", queue="other") == 45
    assert value(registry, "queue_depth", queue="other", status="pending") == 45


async def test_pairs_of_types_and_queues_are_bounded_too(registry):
    async with connect("memory://") as queue:
        queue.observe(Prometheus(registry, max_pairs=30))
        pairs = [(f"type-{number % 10}", None, {"queue": f"queue-{number // 10}"}) for number in range(100)]
        await queue.submit_many(pairs)
    samples = [sample for family in registry.collect() for sample in family.samples]
    labels = {(labels["task_type"], labels["queue"]) for _, labels, *_ in samples if "task_type" in labels}
    assert len(labels) == 31
    assert value(registry, "tasks_submitted_total", task_type="other", queue="other") == 70


async def test_a_histogram_begins_with_its_first_value(registry):
    async with connect("memory://") as queue:
        queue.observe(Prometheus(registry))
        await queue.submit("greet")
    assert value(registry, "tasks_submitted_total", task_type="greet", queue="default") == 1
    assert value(registry, "task_ttl_seconds_count", task_type="greet", queue="default") is None


async def test_no_id_is_ever_a_label(registry):
    async with connect("memory://") as queue:
        queue.observe(Prometheus(registry))
        task = await queue.submit("greet", task_id="the-id")
        await queue.cancel(task.id)
        await queue.events.look(queue)
    assert b"the-id" not in generate_latest(registry)


async def test_waits_durations_and_ttls_are_measured(registry):
    clock = FakeClock()
    async with connect("memory://", clock=clock) as queue:
        queue.observe(Prometheus(registry))
        worker = Worker(queue)
        worker.task("greet")(lambda _: None)
        await queue.submit("greet", ttl=timedelta(days=20))
        clock.advance(100)
        await worker.run(until_idle=True)
    labels = {"task_type": "greet", "queue": "default"}
    assert value(registry, "task_ttl_seconds_sum", **labels) == 20 * 86400
    assert value(registry, "task_ttl_seconds_bucket", **labels, le="2.592e+06") == 1
    assert value(registry, "task_wait_seconds_sum", **labels) == 100
    assert value(registry, "task_duration_seconds_count", **labels) == 1
    assert value(registry, "task_duration_seconds_sum", **labels) < 100


async def test_gauges_show_what_is_about_to_expire_what_is_old_and_who_is_there(registry):
    clock = FakeClock()
    async with connect("memory://", clock=clock) as queue:
        queue.observe(Prometheus(registry, soon=30))
        await queue.submit("mail", ttl=20)
        await queue.submit("mail", ttl=40)
        await queue.submit("report", ttl=10, delay=3600)
        await queue.submit("other", delay=7200)
        await queue.submit("long")
        await queue.store.claim(Want("w1", ("default",), {"long": 1}, 1, timedelta(seconds=15)))
        clock.advance(5)
        await queue.pause("mail")
        await queue.events.look(queue)
        assert value(registry, "tasks_near_expiration", task_type="mail") == 1
        assert value(registry, "tasks_near_expiration", task_type="report") == 1
        assert value(registry, "oldest_pending_seconds") == 5
        assert value(registry, "running_age_seconds") == 5
        assert value(registry, "tasks_unhandled", task_type="mail", queue="default") == 2
        assert value(registry, "tasks_unhandled", task_type="other", queue="default") is None
        assert (value(registry, "workers"), value(registry, "queues_paused")) == (0, 1)
        clock.advance(60)
        await queue.events.look(queue)
        assert value(registry, "tasks_near_expiration", task_type="mail") == 0


async def test_what_is_about_to_expire_and_what_has_lapsed_is_counted_without_reading_records(registry):
    clock = FakeClock()
    queue = Queue(FaultyStore(MemoryStore(clock), plan=[Fault("overdue", "before")])).observe(Prometheus(registry))
    await queue.submit_many([("mail", None, {"ttl": 50}), ("long", None)])
    await queue.store.claim(Want("w1", ("default",), {"long": 1}, 1, timedelta(seconds=15)))
    clock.advance(20)
    assert (await look(queue)).lapsed == 1
    await queue.events.look(queue)
    assert value(registry, "tasks_near_expiration", task_type="mail") == 1
    await queue.close()


async def test_the_longest_waiting_task_is_found_behind_many_that_were_submitted_before_it(registry):
    clock = FakeClock()
    async with connect("memory://", clock=clock) as queue:
        queue.observe(Prometheus(registry))
        await queue.submit_many([("later", None, {"delay": 86_400})] * 120)
        await queue.submit("now")
        clock.advance(5000)
        await queue.events.look(queue)
        assert value(registry, "oldest_pending_seconds") == 5000


async def test_the_attempt_that_runs_longest_is_found_behind_many_that_were_submitted_before_it(registry):
    clock = FakeClock()
    async with connect("memory://", clock=clock) as queue:
        queue.observe(Prometheus(registry))
        await queue.submit_many([("young", None, {"delay": 9000})] * 1010)
        await queue.submit("old")
        day = timedelta(days=1)
        await queue.store.claim(Want("w1", ("default",), {"old": 1}, 1, day))
        clock.advance(9001)
        await queue.store.claim(Want("w1", ("default",), {"young": 1}, 1010, day))
        await queue.events.look(queue)
        assert value(registry, "running_age_seconds") == (await queue.stats()).oldest_running_seconds == 9001


async def test_calls_of_the_store_are_counted_and_timed(registry):
    store = FaultyStore(MemoryStore(), plan=[Fault("get", "before", nth=1)])
    queue = Queue(store).observe(Prometheus(registry), Prometheus(registry))
    with pytest.raises(ConnectionError):
        await queue.get("one")
    await queue.submit_many([("greet", None)] * 3)
    assert value(registry, "store_requests_total", operation="insert", outcome="answered") == 2
    assert value(registry, "store_requests_total", operation="get", outcome="failed") == 2
    assert value(registry, "store_request_seconds_count", operation="insert") == 2
    await queue.close()


async def test_everything_a_worker_asks_of_its_store_is_counted(registry):
    queue = Queue(MemoryStore()).observe(Prometheus(registry))
    worker = Worker(queue)
    worker.task("greet")(lambda _: None)
    await queue.submit("greet")
    await worker.run(until_idle=True)
    await queue.close()
    for operation in ("insert", "claim", "swap", "put_note", "count"):
        assert value(registry, "store_requests_total", operation=operation, outcome="answered") > 0, operation


async def test_the_sweeper_s_calls_are_counted_also_when_the_worker_was_there_first(registry):
    queue = Queue(MemoryStore())
    worker = Worker(queue, sweep_interval=0.01)
    queue.observe(Prometheus(registry))
    worker.task("greet")(lambda _: None)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(30):
        while not value(registry, "store_requests_total", operation="prune", outcome="answered"):
            await asyncio.sleep(0)
    worker.stop()
    await running
    await queue.close()


async def test_a_call_that_nobody_waits_for_any_longer_is_no_answer(registry):
    store = MemoryStore()
    queue = Queue(store)
    store.get = lambda ids: asyncio.Event().wait()
    queue.observe(Prometheus(registry))
    asking = asyncio.create_task(queue.get("one"))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert value(registry, "store_requests_total", operation="get", outcome="cancelled") == 1
    assert value(registry, "store_requests_total", operation="get", outcome="answered") is None


async def test_a_call_that_fails_in_a_way_of_its_own_has_failed_and_a_refusal_is_an_answer(registry):
    store = MemoryStore()

    async def broken(ids):
        raise OSError(24, "Too many open files")

    store.get = broken
    queue = Queue(store).observe(Prometheus(registry))
    with pytest.raises(OSError, match="Too many open files"):
        await queue.get("one")
    with pytest.raises(InvalidInput):
        await queue.store.insert_within(None, [])
    assert value(registry, "store_requests_total", operation="get", outcome="failed") == 1
    assert value(registry, "store_requests_total", operation="insert_within", outcome="answered") == 1


async def test_a_deadline_that_has_passed_at_the_submit_is_no_negative_time_to_live(registry):
    clock = FakeClock()
    async with connect("memory://", clock=clock) as queue:
        queue.observe(Prometheus(registry))
        await queue.submit("greet", expires_at=clock() - timedelta(days=3))
    assert value(registry, "task_ttl_seconds_sum", task_type="greet", queue="default") == 0
    assert value(registry, "task_ttl_seconds_count", task_type="greet", queue="default") == 1


async def test_an_application_s_own_kind_of_prometheus_is_not_joined_by_another(registry):
    class Mine(Prometheus):
        pass

    queue = Queue(MemoryStore()).observe(Mine(registry))
    observe(queue, Shown(metrics="0"))
    assert [type(each) for each in queue.events.subscribers] == [Mine, Logging]


def test_many_values_at_once_fall_into_the_buckets_that_one_by_one_they_would(registry):
    values = [0.0, 0.001, 0.0011, 0.25, 3.0, 3.0, 12 * 3600, 10**9]
    one, many = (Histogram(name, "", buckets=DURATIONS, registry=registry) for name in ("one", "many"))
    for each in values:
        one.observe(each)
    observe_all(many, values)

    def samples(histogram):
        return [(each.name, each.labels, each.value) for each in histogram._samples() if "created" not in each.name]

    assert [rest for _, *rest in [*map(list, samples(one))]] == [rest for _, *rest in [*map(list, samples(many))]]
    assert samples(many)[-2][2] == len(values)
