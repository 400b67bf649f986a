"""Alerts: one list of rules, for Prometheus and for the doctor; both come to the same conclusion."""

import asyncio
import json
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from debian import environment, program
from tenure import Worker, connect
from tenure.observe import alerts, dashboard
from tenure.observe.alerts import ALERTS, State
from tenure.observe.figures import Figures, Flow, flow, look
from tenure.observe.prometheus import Prometheus
from tenure.testing import FakeClock

CALM = Figures(
    depth={"default": {"pending": 10, "running": 2}},
    near_expiration={},
    unhandled={},
    oldest_pending=1.0,
    oldest_running=2.0,
    lapsed=0,
    lease=30.0,
    workers=2,
    paused={},
    damaged=0,
)
IDLE = Flow(submitted=1.0, ended=1.0, completed=1.0, dead=0.0)


def changed(**figures):
    return Figures(**{**{name: getattr(CALM, name) for name in Figures.__struct_fields__}, **figures})


def promtool(*words, text=None):
    done = subprocess.run(
        [program("promtool"), *map(str, words)],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_files_of_the_package_are_what_the_code_writes():
    assert alerts.FILE.read_text() == alerts.rules()
    assert dashboard.FILE.read_text() == dashboard.text()


def test_the_command_prints_them(capsys):
    from tenure.cli.program import invoke

    assert invoke(["doctor", "--rules"]) == 0
    assert capsys.readouterr().out == alerts.rules()
    assert invoke(["doctor", "--dashboard"]) == 0
    assert json.loads(capsys.readouterr().out) == dashboard.dashboard()


@pytest.mark.parametrize("what", ["--rules", "--dashboard"])
def test_the_command_prints_them_for_metrics_of_another_prefix(capsys, what):
    from tenure.cli.program import invoke

    assert invoke(["doctor", what]) == 0
    usual = capsys.readouterr().out
    assert invoke(["doctor", what, "--prefix", "billing"]) == 0
    printed = capsys.readouterr().out
    assert (printed.count("billing_"), printed.count("tenure_")) == (usual.count("tenure_"), 0)
    assert invoke(["doctor", what, "--prefix", "9 lives"]) == 2
    assert "'9 lives' cannot begin the name of a metric" in capsys.readouterr().err


def test_prometheus_accepts_the_rules():
    assert f"{len(ALERTS) + 1} rules found" in promtool("check", "rules", alerts.FILE)


def test_prometheus_understands_every_line_of_the_dashboard(tmp_path):
    expressions = [line[0].replace("$__rate_interval", "5m") for panel in dashboard.PANELS for line in panel.lines]
    rules = [{"record": f"line:{number}", "expr": text} for number, text in enumerate(expressions)]
    (tmp_path / "lines.yml").write_text(json.dumps({"groups": [{"name": "lines", "rules": rules}]}))
    assert f"{len(expressions)} rules found" in promtool("check", "rules", "--lint=none", tmp_path / "lines.yml")


def test_rules_and_dashboard_speak_of_metrics_that_exist():
    registry = CollectorRegistry()
    Prometheus(registry).show(CALM)
    there = {
        f"{family.name}{suffix}"
        for family in registry.collect()
        for suffix in {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
    }
    named = set(re.findall(r"tenure_\w+", alerts.rules() + dashboard.text()))
    assert named - there == set()


async def test_what_a_worker_exposes_is_clean_in_the_eyes_of_prometheus(queue):
    registry = CollectorRegistry()
    queue.observe(Prometheus(registry))
    worker = Worker(queue)
    worker.task("greet")(lambda _: None)
    await queue.submit("greet", ttl=60)
    await worker.run(until_idle=True)
    assert promtool("check", "metrics", text=generate_latest(registry).decode()) == ""


STATES = {
    "calm": CALM,
    "many pending": changed(depth={"default": {"pending": 600}, "mail": {"pending": 500}}),
    "many for another day": changed(depth={"default": {"pending": 1500}}, oldest_pending=0.0),
    "waiting long": changed(oldest_pending=700.0),
    "running long": changed(oldest_running=70.0),
    "running long for its lease": changed(oldest_running=70.0, lease=60.0),
    "nobody takes them": changed(unhandled={("default", "mail"): 1}),
    "about to expire": changed(near_expiration={"mail": 60, "report": 60}),
    "paused": changed(paused={"default": "deploy"}),
    "damaged": changed(damaged=1),
}
BY_GAUGES = {"depth", "waiting", "running", "workers", "deadlines", "pauses", "records"}


@pytest.mark.parametrize("name", STATES)
def test_prometheus_and_the_doctor_come_to_the_same_conclusion(name, tmp_path):
    registry = CollectorRegistry()
    Prometheus(registry).show(STATES[name])
    series = [
        {"series": _series(sample, instance), "values": f"{sample.value}x150"}
        for family in registry.collect()
        for sample in family.samples
        for instance in ("a", "b")
    ]
    firing = {alert.alert for alert in ALERTS if alert.look(State(STATES[name], IDLE)).firing}
    tests = [_expectation(alert.alert, alert.alert in firing) for alert in ALERTS if alert.name in BY_GAUGES]
    _check(tmp_path, series, tests)
    assert len(firing) == (name not in ("calm", "running long for its lease", "many for another day"))


def _series(sample, instance):
    labels = {**sample.labels, "instance": instance}
    return f"{sample.name}{{{','.join(f'{label}={json.dumps(text)}' for label, text in labels.items())}}}"


def _expectation(name, fires, at="2h"):
    texts = {alert.alert: (alert.summary, alert.action, alert.page) for alert in ALERTS}
    summary, action, page = {**texts, alerts.STORE[0]: (alerts.STORE[1], alerts.STORE[4], True)}[name]
    expected = {
        "exp_labels": {"severity": "page" if page else "warning"},
        "exp_annotations": {"summary": summary, "description": action},
    }
    return {"eval_time": at, "alertname": name, "exp_alerts": [expected] if fires else []}


def _check(folder, series, tests):
    test = {"interval": "1m", "input_series": series, "alert_rule_test": tests}
    whole = {"rule_files": [str(alerts.FILE)], "evaluation_interval": "1m", "tests": [test]}
    (folder / "test.yml").write_text(json.dumps(whole))
    promtool("test", "rules", folder / "test.yml")


DEPTH = 'tenure_queue_depth{queue="default",status="pending"}'
ANSWERED, CANCELLED = (f'tenure_store_requests_total{{outcome="{outcome}"}}' for outcome in ("answered", "cancelled"))
OLDEST = "tenure_oldest_pending_seconds"
COMPLETED, DEAD = 'tenure_tasks_completed_total{task_type="a"}', 'tenure_tasks_dead_total{task_type="a"}'
WORKERS, SUBMITTED = 'tenure_workers{instance="worker"}', 'tenure_tasks_submitted_total{instance="producer"}'
LAPSED, LOST = 'tenure_leases_lapsed_total{task_type="a"}', 'tenure_leases_lost_total{task_type="a"}'


@pytest.mark.parametrize(
    ("alert", "series", "fires"),
    [
        ("TenureBacklogGrows", {DEPTH: "50+5x150", OLDEST: "0+30x150"}, True),
        ("TenureBacklogGrows", {DEPTH: "2000-5x150", OLDEST: "0+30x150"}, False),
        ("TenureBacklogGrows", {DEPTH: "50x150", OLDEST: "0+30x150"}, False),
        ("TenureBacklogGrows", {DEPTH: "50+5x150", OLDEST: "0x150"}, False),
        ("TenureStoreFails", {ANSWERED: "0+90x150", CANCELLED: "0+10x150"}, True),
        ("TenureStoreFails", {ANSWERED: "0+90x150", CANCELLED: "0+1x150"}, False),
        ("TenureManyFailures", {COMPLETED: "0+90x150", DEAD: "0+10x150"}, True),
        ("TenureManyFailures", {COMPLETED: "0+99x150", DEAD: "0+1x150"}, False),
        ("TenureLeasesLapse", {LAPSED: "0x110 1x40"}, True),
        ("TenureLeasesLapse", {LAPSED: "0x150", LOST: "0x110 1x40"}, True),
        ("TenureLeasesLapse", {LAPSED: "5x150", LOST: "0x150"}, False),
        ("TenureNoWorker", {}, True),
        ("TenureNoWorker", {WORKERS: "2x110 stale", SUBMITTED: "0+10x150"}, True),
        ("TenureNoWorker", {WORKERS: "2x110 0x40"}, True),
        ("TenureNoWorker", {WORKERS: "2x150", SUBMITTED: "0+10x150"}, False),
    ],
)
def test_rules_over_time_fire_when_they_should(tmp_path, alert, series, fires):
    _check(
        tmp_path, [{"series": name, "values": values} for name, values in series.items()], [_expectation(alert, fires)]
    )


async def test_the_doctor_s_figures_come_from_the_queue(queue):
    await queue.submit_many([("fails", number) for number in range(10)])
    await queue.submit_many([("greet", number) for number in range(10)])
    worker = Worker(queue, retry=None)

    @worker.task("fails")
    async def fails(input):
        raise ValueError

    worker.task("greet")(lambda _: None)
    await worker.run(until_idle=True)
    state = State(await look(queue), await flow(queue))
    assert state.flow.dead_share == 0.5
    assert state.flow.submitted == state.flow.ended == 20 / 900
    assert {alert.name for alert in ALERTS if alert.look(state).firing} == {"failures"}
    await queue.submit_many([("greet", number) for number in range(200)])
    state = State(await look(queue), await flow(queue))
    assert {alert.name for alert in ALERTS if alert.look(state).firing} == {"failures", "workers"}
    later = State(msgspec.structs.replace(state.figures, oldest_pending=61.0), state.flow)
    assert {alert.name for alert in ALERTS if alert.look(later).firing} == {"failures", "growth", "workers"}


async def test_the_share_that_fails_is_told_right_beside_more_ends_than_are_looked_at():
    clock = FakeClock()
    async with connect("memory://", clock=clock) as queue:
        worker = Worker(queue, retry=None, concurrency=1)

        @worker.task("job")
        async def job(number):
            clock.advance(0.01)
            if number % 10 == 0:
                raise ValueError

        await queue.submit_many([("job", number) for number in range(2000)])
        await worker.run(until_idle=True)
        assert (await flow(queue)).dead_share == pytest.approx(0.1, abs=0.01)


async def test_a_bulk_submit_does_not_shorten_the_time_over_which_ends_are_counted():
    clock = FakeClock()
    async with connect("memory://", clock=clock) as queue:
        worker = Worker(queue, retry=None)

        @worker.task("job")
        async def job(number):
            if number % 10 == 0:
                raise ValueError

        await queue.submit_many([("job", number) for number in range(100)])
        await worker.run(until_idle=True)
        clock.advance(60)
        await queue.submit_many([("job", number) for number in range(1500)])
        clock.advance(1)
        found = await flow(queue)
        assert found.dead_share == pytest.approx(0.1)
        assert found.ended == pytest.approx(100 / 900)
        assert found.submitted == 1000


async def test_a_record_that_cannot_be_read_does_not_make_a_full_page_a_short_one(tmp_path):
    clock, path = FakeClock(), tmp_path / "jobs.db"

    def damage(where):
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"UPDATE tenure_records SET record = x'00' WHERE {where}")

    async with connect(f"sqlite:///{path}", clock=clock) as queue:
        for _ in range(20):
            clock.advance(1)
            await queue.submit_many([("job", None)] * 100)
        damage("seq = (SELECT max(seq) FROM tenure_tasks)")
        assert (await flow(queue)).submitted == 999 / 9
        damage("true")
        assert (await flow(queue)).submitted == 0


async def test_tasks_for_another_day_are_no_backlog_and_miss_no_worker_yet(queue):
    await queue.submit_many([("report", None, {"delay": 30 * 86_400})] * 1500)
    state = State(await look(queue), await flow(queue))
    assert {alert.name for alert in ALERTS if alert.look(state).firing} == set()


async def test_the_doctor_names_the_queue_where_nobody_takes_a_type(queue):
    worker = Worker(queue)
    entered, leave = asyncio.Event(), asyncio.Event()

    @worker.task("mail")
    async def mail(input):
        entered.set()
        await leave.wait()

    await queue.submit_many([("mail", None), ("mail", None, {"queue": "elsewhere"})])
    running = asyncio.create_task(worker.run())
    await entered.wait()
    # The worker's note is written by another thread.
    async with asyncio.timeout(30):
        while not await queue.workers():
            await asyncio.sleep(0)
    figures = await look(queue)
    assert figures.unhandled == {("elsewhere", "mail"): 1}
    (workers,) = [alert for alert in ALERTS if alert.name == "workers"]
    assert workers.look(State(figures, IDLE)) == (True, "1 alive, and none takes 'mail' in queue 'elsewhere'")
    leave.set()
    worker.stop()
    await running


def test_the_page_for_operators_has_every_alert_and_every_metric():
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    names = re.findall(r"alert: (\w+)", alerts.rules())
    registry = CollectorRegistry()
    Prometheus(registry, prefix="").show(CALM)
    metrics = [f"{family.name}{'_total' if family.type == 'counter' else ''}"[1:] for family in registry.collect()]
    assert len(names) == len(ALERTS) + 1
    assert [name for name in [*names, *metrics] if f"`{name}`" not in page] == []
