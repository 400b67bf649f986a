"""What is no id, name, text or list of tasks is refused by the name of the argument, with its value, on every store."""

import re

import pytest

from tenure import InvalidInput

HALF = "\ud800"
"""Half of a character: Python takes it as text, and nothing can store it."""


@pytest.mark.parametrize(
    "call",
    ["get", "history", "explain", "result", "cancel", "retry", "mark_expired", "archive", "purge"],
)
@pytest.mark.parametrize(
    ("value", "words"),
    [(5, "task_id must be a string, not 5"), (HALF, r"task_id='\ud800' is not valid"), ("", "task_id is empty")],
)
async def test_what_is_no_id_is_refused(queue, call, value, words):
    with pytest.raises(InvalidInput, match=re.escape(words)):
        await getattr(queue, call)(value)


@pytest.mark.parametrize("call", ["get", "cancel", "result"])
async def test_a_task_is_not_its_id(queue, call):
    task = await queue.submit("job", "x" * 1000)
    with pytest.raises(InvalidInput, match="task_id must be a string, not Task") as refusal:
        await getattr(queue, call)(task)
    assert task.id in str(refusal.value)
    assert len(str(refusal.value)) < 150


@pytest.mark.parametrize("field", ["type", "queue", "tag", "worker", "cursor", "error_contains"])
@pytest.mark.parametrize("value", [5, ["job"], HALF])
async def test_what_is_no_filter_is_refused(queue, field, value):
    with pytest.raises(InvalidInput, match=re.escape(field) + ".*" + re.escape(repr(value))):
        await queue.list(**{field: value})


@pytest.mark.parametrize("value", [object(), HALF, None])
@pytest.mark.parametrize("field", ["queue", "reason", "by"])
async def test_a_pause_is_told_in_words(queue, field, value):
    with pytest.raises(InvalidInput, match=field):
        await queue.pause(**{field: value})
    assert await queue.paused() == {}


@pytest.mark.parametrize("call", ["resume", "counts"])
async def test_a_queue_has_a_name(queue, call):
    with pytest.raises(InvalidInput, match="queue must be a string"):
        await getattr(queue, call)(["default"])


@pytest.mark.parametrize("value", [object(), HALF])
@pytest.mark.parametrize(
    ("call", "field"),
    [("cancel", "reason"), ("cancel", "by"), ("cancel_many", "reason"), ("cancel_by_type", "by"), ("retry", "by")],
)
async def test_what_an_operator_says_is_text(queue, call, field, value):
    task = await queue.submit("job", 1)
    target = {"cancel_many": [task.id], "cancel_by_type": "job"}.get(call, task.id)
    with pytest.raises(InvalidInput, match=field):
        await getattr(queue, call)(target, **{field: value})
    assert await queue.get(task.id) == task


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (None, "tasks=None must be a list"),
        (5, "tasks=5 must be a list"),
        (["job"], "not 'job'"),
        ([("job", 1, None)], "options=None of a task in a batch"),
        ([("job", 1, [5])], r"options=\[5\] of a task in a batch"),
        ([("job", 1, {5: 5})], "Unknown option 5"),
    ],
)
async def test_what_is_no_batch_is_refused(queue, tasks, words):
    with pytest.raises(InvalidInput, match=words):
        await queue.submit_many(tasks)


@pytest.mark.parametrize(("ids", "words"), [(None, "ids=None"), (5, "ids=5"), ("nobody", "ids='nobody'")])
async def test_many_tasks_are_given_as_a_list_of_their_ids(queue, ids, words):
    with pytest.raises(InvalidInput, match=words):
        await queue.cancel_many(ids)


async def test_one_that_is_no_id_cancels_none(queue):
    task = await queue.submit("job", 1)
    with pytest.raises(InvalidInput, match=r"ids\[1\] must be a string, not Task"):
        await queue.cancel_many([task.id, task])
    assert await queue.get(task.id) == task
