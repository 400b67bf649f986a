"""`tenure cancel`, `retry`, `archive`, `expire` and `dlq`."""

import asyncio

import pytest

from tenure import TaskStatus

from .conftest import work_off


@pytest.fixture
def dead(terminal, queue):
    """Three dead letters."""
    tasks = [queue.submit("breaks", what) for what in ("cup", "plate", "cup")]
    asyncio.run(work_off(terminal.url))
    return [task.id for task in tasks]


def test_cancel_takes_ids_and_remembers_who_and_why(terminal, queue):
    first, second = queue.submit("greet"), queue.submit("greet")
    answer = terminal.process("cancel", first.id, second.id, "--reason", "wrong price", "--by", "ada")
    assert answer.out == "Cancelled 2 tasks\n"
    task = queue.get(second.id)
    assert (task.status, task.cancel_reason, task.cancelled_by) == (TaskStatus.Cancelled, "wrong price", "ada")


def test_what_is_refused_is_named_and_makes_the_exit_code_1(terminal, queue, dead):
    pending = queue.submit("greet")
    answer = terminal("cancel", pending.id, dead[0], "nobody", code=1)
    assert answer.out == "Cancelled 1 task, 2 refused\n"
    assert f"Cannot cancel task {dead[0]}: it is failed." in answer.err
    assert "No task 'nobody'" in answer.err
    first, second = terminal("cancel", pending.id, dead[0], "--json", code=1).objects
    assert first == {"id": pending.id, "action": "cancel", "done": True, "status": "cancelled", "error": None}
    assert (second["done"], second["status"]) == (False, None)
    assert second["error"].startswith("Cannot cancel")


def test_filters_need_a_yes_where_nobody_can_be_asked(terminal, queue):
    queue.submit("greet")
    answer = terminal("cancel", "--type", "greet", code=2)
    assert answer.err == "error: This would cancel 1 task. Add --yes to do it, or --dry-run to see which.\n"
    assert queue.counts()[TaskStatus.Pending] == 1


def test_a_dry_run_shows_and_changes_nothing(terminal, queue):
    task = queue.submit("greet")
    answer = terminal("cancel", "--type", "greet", "--dry-run")
    assert (answer.out, answer.err) == (f"{task.id}\n", "Would cancel 1 task; nothing was changed.\n")
    assert terminal("cancel", "--type", "greet", "--dry-run", "--json").json == {
        "id": task.id, "action": "cancel", "dry_run": True,
    }  # fmt: skip
    assert queue.counts()[TaskStatus.Pending] == 1


def test_filters_are_taken_together(terminal, queue):
    queue.submit("greet", tags=["red"])
    queue.submit("greet", queue="mail", tags=["red"])
    both = queue.submit("other", queue="mail", tags=["red"])
    words = ["--type", "other", "--queue", "mail", "--tag", "red", "--older-than", "0s", "--status", "ready"]
    assert terminal("cancel", *words, "--yes").out == "Cancelled 1 task\n"
    assert queue.get(both.id).status is TaskStatus.Cancelled
    assert terminal("cancel", "--type", "nothing", "--yes").out == "Cancelled 0 tasks\n"


def test_many_tasks_are_changed_by_one_filter(terminal, queue):
    queue.submit_many([("greet", number) for number in range(450)])
    assert terminal("expire", "--type", "greet", "--yes").out == "Expired 450 tasks\n"
    assert queue.counts()[TaskStatus.Expired] == 450


@pytest.mark.parametrize("words", [[], ["some-id", "--type", "greet"]])
@pytest.mark.parametrize(
    "command", [["cancel"], ["retry"], ["archive"], ["expire"], ["dlq", "requeue"], ["dlq", "purge"]]
)
def test_a_command_means_ids_or_filters_and_never_everything_by_accident(terminal, command, words):
    assert terminal(*command, *words, code=2).err.startswith("error: Give ids")


def test_retry_gives_dead_letters_another_life(terminal, queue, dead):
    assert terminal("retry", dead[0]).out == "Retried 1 task\n"
    assert (queue.get(dead[0]).status, queue.get(dead[0]).attempts) == (TaskStatus.Pending, 0)
    assert terminal("retry", "--error-contains", "cup", "--keep-attempts", "--yes").out == "Retried 1 task\n"
    assert (queue.get(dead[2]).status, queue.get(dead[2]).attempts) == (TaskStatus.Pending, 1)
    assert "Cannot retry" in terminal("retry", dead[2], code=1).err


def test_archive_puts_ended_tasks_away(terminal, queue, dead):
    open_task = queue.submit("greet")
    assert terminal("archive", "--type", "breaks", "--yes").out == "Archived 3 tasks\n"
    assert queue.get(dead[0]).status is TaskStatus.Archived
    assert "Cannot archive" in terminal("archive", open_task.id, code=1).err


def test_expire_means_pending_tasks_only(terminal, queue, dead):
    task = queue.submit("greet")
    assert terminal("expire", task.id).out == "Expired 1 task\n"
    assert queue.get(task.id).status is TaskStatus.Expired
    assert "Cannot expire" in terminal("expire", dead[0], code=1).err


def test_the_dlq_lists_dead_letters_with_their_errors(terminal, dead):
    head, *rows = terminal.process("dlq", "list").out.splitlines()
    assert head.split() == ["id", "type", "attempts", "failed_at", "error"]
    assert {row.split()[0] for row in rows} == set(dead)
    assert all(row.endswith("is broken") for row in rows)
    assert [task["id"] for task in terminal("dlq", "list", "--error-contains", "plate", "--json").objects] == [dead[1]]
    *page, last = terminal("dlq", "list", "--limit", "2", "--json").objects
    assert (len(page), list(last)) == (2, ["cursor"])
    assert "There are more" in terminal("dlq", "list", "--limit", "2").err


def test_the_dlq_shows_a_dead_letter_with_traceback_and_history(terminal, queue, dead):
    shown = terminal("dlq", "show", dead[0]).out
    assert "Traceback (most recent call last)" in shown
    assert "Version 3: failed" in shown
    assert terminal("dlq", "show", dead[0], "--json").json["traceback"].startswith("Traceback")
    alive = queue.submit("greet").id
    assert f"Task {alive} is pending, no dead letter" in terminal("dlq", "show", alive, code=1).err


def test_the_dlq_puts_letters_back(terminal, queue, dead):
    assert (
        terminal("dlq", "requeue", "--type", "breaks", "--error-contains", "plate", "--yes").out == "Requeued 1 task\n"
    )
    assert terminal("dlq", "requeue", "--all", "--keep-attempts", "--yes").out == "Requeued 2 tasks\n"
    assert [queue.get(task_id).attempts for task_id in dead] == [1, 0, 1]


def test_the_dlq_purges_for_good_and_nothing_but_dead_letters(terminal, queue, dead):
    alive = queue.submit("greet").id
    assert "Only failed tasks are purged here" in terminal("dlq", "purge", alive, code=1).err
    assert terminal("dlq", "purge", dead[1]).out == "Purged 1 task\n"
    assert terminal("dlq", "purge", "--all", "--yes").out == "Purged 2 tasks\n"
    assert [queue.get(task_id) for task_id in dead] == [None] * 3
    assert queue.counts()[TaskStatus.Failed] == 0
    assert queue.get(alive) is not None
