"""The words people use for statuses (section 1 of the contract)."""

import pytest

from tenure.errors import InvalidInput
from tenure.stores.base import Query
from tenure.task import TaskStatus
from tenure.words import STATUS_WORDS, narrowed

from .builders import NOW

MEANINGS = {
    "pending": Query(status=TaskStatus.Pending),
    "running": Query(status=TaskStatus.Running),
    "completed": Query(status=TaskStatus.Completed),
    "failed": Query(status=TaskStatus.Failed),
    "cancelled": Query(status=TaskStatus.Cancelled),
    "expired": Query(status=TaskStatus.Expired),
    "archived": Query(status=TaskStatus.Archived),
    "in_progress": Query(status=TaskStatus.Running),
    "claimed": Query(status=TaskStatus.Running),
    "inflight": Query(status=TaskStatus.Running),
    "dead_letter": Query(status=TaskStatus.Failed),
    "dlq": Query(status=TaskStatus.Failed),
    "dead": Query(status=TaskStatus.Failed),
    "done": Query(status=TaskStatus.Completed),
    "ready": Query(status=TaskStatus.Pending, available_by=NOW),
    "scheduled": Query(status=TaskStatus.Pending, available_after=NOW),
    "retrying": Query(status=TaskStatus.Pending, min_attempts=1),
}


@pytest.mark.parametrize("word", MEANINGS)
def test_every_word_has_its_meaning(word):
    assert narrowed(Query(), word, NOW) == MEANINGS[word]


def test_these_are_all_the_words():
    assert set(STATUS_WORDS) == set(MEANINGS)


@pytest.mark.parametrize("word", ["In-Progress", " in_progress ", "IN_PROGRESS", TaskStatus.Running])
def test_a_word_may_be_written_in_several_ways(word):
    assert narrowed(Query(), word, NOW).status is TaskStatus.Running


def test_the_rest_of_the_question_stays():
    query = Query(type="greet", queue="mail", tag="a", limit=7, cursor="c")
    assert narrowed(query, "ready", NOW) == Query(
        status=TaskStatus.Pending, available_by=NOW, type="greet", queue="mail", tag="a", limit=7, cursor="c"
    )


@pytest.mark.parametrize("word", ["", "snoozing", "pendingg", "None"])
def test_an_unknown_word_is_answered_with_the_words(word):
    with pytest.raises(InvalidInput) as refusal:
        narrowed(Query(), word, NOW)
    assert str(refusal.value) == f"{word.lower()!r} is no status. Known: {', '.join(STATUS_WORDS)}."
