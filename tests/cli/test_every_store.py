"""What does not depend on the store works on each of them."""

import pytest

STORES = ["memory://", "sqlite:///any.db"]


@pytest.mark.parametrize("url", STORES)
@pytest.mark.parametrize(
    "words",
    [
        "submit -t greet", "list", "stats", "workers", "pause", "resume", "doctor", "bench --tasks 100",
        "top --count 1", "export all.jsonl", "copy {url} sqlite:///copy.db", "cancel --type greet --yes",
        "dlq list", "dlq requeue --all --yes", "config show",
    ],
)  # fmt: skip
def test_a_command_works_on_every_store(terminal, url, words):
    answer = terminal(*words.format(url=url).split(), "--url", url, "--json")
    assert all(isinstance(each, dict) for each in answer.objects)
