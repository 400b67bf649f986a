"""`tenure status`, `history` and `list`."""

import asyncio
import re

import pytest

from tenure import TaskStatus

from .conftest import work_off

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z"


def test_status_shows_a_task_line_by_line(terminal, queue):
    task = queue.submit("greet", {"name": "Ada"}, ttl=9000, tags=["red"], priority=2)
    lines = terminal.process("status", task.id).out.splitlines()
    shown = dict(line.split(": ", 1) for line in lines)
    assert shown["id"] == task.id
    assert shown["status"] == "pending"
    assert shown["why"] == "no worker handles the type 'greet' in queue 'default'"
    assert shown["input"] == '{"name":"Ada"}'
    assert (shown["tags"], shown["priority"]) == ("red", "2")
    assert "worker" not in shown


def test_a_deadline_is_shown_with_the_time_that_is_left(terminal, queue):
    task = queue.submit("greet", ttl=9000.5)
    assert re.search(rf"^expires_at: {TIME} \(in 2h 30m\)$", terminal("status", task.id).out, re.MULTILINE)


def test_status_as_json_is_the_whole_task_and_the_reason(terminal, queue):
    task = queue.submit("greet", {"name": "Ada"}, delay=3600)
    shown = terminal("status", task.id, "--json").json
    assert (shown["id"], shown["input"], shown["output"]) == (task.id, {"name": "Ada"}, None)
    assert shown["why"].startswith("due in 59m")
    assert shown["history"][0]["what"] == "created"


def test_status_of_an_ended_task_shows_output_or_error(terminal, queue):
    done, broken = queue.submit("greet", "Ada"), queue.submit("breaks", "this")
    asyncio.run(work_off(terminal.url))
    assert 'output: "hello Ada"' in terminal("status", done.id).out
    shown = terminal("status", broken.id).out
    assert "last_error: PermanentError: this is broken" in shown
    assert "Traceback" not in shown
    assert "Traceback (most recent call last)" in terminal("status", broken.id, "--traceback").out


def test_a_task_that_is_not_there_is_exit_code_1(terminal):
    for command in ("status", "history"):
        assert terminal(command, "nobody", code=1).err.startswith("error: No task 'nobody' in this store.")


def test_watching_ends_with_the_task(terminal, queue):
    task = queue.submit("greet", "Ada")
    watching = terminal.start("status", task.id, "--watch", "--json")
    assert '"status": "pending"' in watching.stdout.readline()
    queue.cancel(task.id)
    rest, _ = watching.communicate(timeout=30)
    assert [line.count('"status": "cancelled", "version"') for line in rest.splitlines()] == [1]
    assert watching.returncode == 0


def test_history_is_oldest_first_in_the_words_of_the_contract(terminal, queue):
    task = queue.submit("greet", ttl=60)
    queue.mark_expired(task.id)
    first, second = terminal.process("history", task.id).out.splitlines()
    assert re.fullmatch(rf"Version 1: pending \(created, expires_at: {TIME}, at: {TIME}\)", first)
    assert re.fullmatch(rf"Version 2: expired \(expired_at: {TIME}\)", second)


def test_history_names_worker_attempt_and_reason(terminal, queue):
    task = queue.submit("breaks", "this")
    asyncio.run(work_off(terminal.url))
    queue.retry(task.id, by="ada")
    lines = terminal("history", task.id).out.splitlines()
    assert re.match(r"Version 2: running \(claimed, attempt 1, worker \S+, at: ", lines[1])
    assert re.match(r"Version 3: failed \(failed_at: \S+, PermanentError: this is broken, attempt 1, worker", lines[2])
    assert re.match(r"Version 4: pending \(retried, by ada, at: ", lines[3])


def test_history_as_json_is_one_object_per_version_with_every_field(terminal, queue):
    task = queue.submit("greet")
    queue.cancel(task.id, reason="no need", by="ada")
    first, second = terminal("history", task.id, "--json").objects
    fields = {"task_id", "task_type", "queue", "number", "status", "at", "what", "attempt", "fence", "worker", "why"}
    assert first.keys() == second.keys() == fields
    assert (second["number"], second["status"], second["why"]) == (2, "cancelled", "no need; by ada")


@pytest.fixture
def one_of_each(terminal, queue):
    """A task of each kind, by the word that finds it."""
    tasks = {
        "completed": queue.submit("greet", "Ada"),
        "failed": queue.submit("breaks", "this"),
        "cancelled": queue.submit("greet"),
        "expired": queue.submit("greet", ttl=0),
    }
    queue.cancel(tasks["cancelled"].id)
    asyncio.run(work_off(terminal.url))
    tasks["ready"] = queue.submit("greet", queue="other", tags=["red"])
    tasks["scheduled"] = queue.submit("greet", delay=3600)
    return {word: task.id for word, task in tasks.items()}


def listed(terminal, *words):
    return [task["id"] for task in terminal("list", *words, "--json").objects if "id" in task]


def test_every_word_for_a_status_finds_its_tasks(terminal, one_of_each):
    for word, task_id in one_of_each.items():
        assert listed(terminal, "--status", word) == [task_id]
    assert set(listed(terminal, "--status", "pending")) == {one_of_each["ready"], one_of_each["scheduled"]}
    assert listed(terminal, "--status", "dlq") == listed(terminal, "--status", "dead-letter") == [one_of_each["failed"]]
    assert listed(terminal, "--status", "done") == [one_of_each["completed"]]
    assert listed(terminal, "--status", "in_progress") == listed(terminal, "--status", "retrying") == []


def test_an_unknown_status_is_an_error_with_the_list_of_words(terminal):
    error = terminal("list", "--status", "lost", code=2).err
    assert error.startswith("error: 'lost' is no status. Known: pending, running, completed")
    assert "retrying" in error


def test_filters_apply_before_the_limit(terminal, one_of_each):
    assert listed(terminal, "--type", "breaks", "--limit", "1") == [one_of_each["failed"]]
    assert listed(terminal, "--queue", "other") == [one_of_each["ready"]]
    assert listed(terminal, "--tag", "red") == [one_of_each["ready"]]
    assert listed(terminal, "--error-contains", "broken", "--limit", "1") == [one_of_each["failed"]]
    assert listed(terminal, "--older-than", "1h") == []
    assert len(listed(terminal, "--older-than", "0s")) == len(one_of_each)
    assert listed(terminal, "--limit", "0") == []


def test_a_cursor_leads_from_page_to_page(terminal, queue):
    tasks = [queue.submit("greet", number).id for number in range(5)]
    found, cursor = [], []
    while True:
        *page, last = terminal("list", "--limit", "2", "--json", *cursor).objects
        if "cursor" not in last:
            found += [task["id"] for task in [*page, last]]
            break
        found += [task["id"] for task in page]
        cursor = ["--cursor", last["cursor"]]
    assert found == tasks[::-1]
    assert "There are more: add --cursor" in terminal("list", "--limit", "2").err
    assert terminal("list", "--cursor", "nonsense", code=2).err.startswith("error: 'nonsense' is no cursor")


def test_a_list_in_a_pipe_is_plain_columns(terminal, queue):
    task = queue.submit("greet", delay=7200)
    head, row = terminal.process("list").out.splitlines()
    assert head.split() == ["id", "type", "queue", "status", "age", "attempts", "remark"]
    assert row.split()[:4] == [task.id, "greet", "default", TaskStatus.Pending]
    assert "due in 1h 59m" in row or "due in 2h" in row
    assert "\x1b" not in row


def test_an_empty_list_says_so_beside_the_answer(terminal):
    assert terminal("list") == (0, "", "No task passes these filters.\n")
