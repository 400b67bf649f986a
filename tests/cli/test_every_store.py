"""What does not depend on the store works on each of them."""

import psycopg
import pytest

import tenure.sync


@pytest.fixture(params=["memory", "sqlite", "postgresql", "dynamodb", "etcd"])
def url(request):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    if request.param == "dynamodb":
        return request.getfixturevalue("dynamodb_url")
    if request.param == "etcd":
        return request.getfixturevalue("etcd_url")
    return {"memory": "memory://", "sqlite": "sqlite:///any.db"}[request.param]


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


def test_a_file_moves_to_postgresql_and_back(terminal, queue, postgres_url):
    """This is how someone outgrows the file."""
    queue.submit_many([("greet", number, {"idempotency_key": f"k{number}", "tags": ["red"]}) for number in range(600)])
    queue.cancel(queue.submit("greet", ordering_key="a", delay=3600).id)
    queue.submit("greet", ttl=60, priority=3)
    assert terminal("copy", terminal.url, postgres_url, "--json").json["tasks"] == 602
    assert terminal("copy", terminal.url, postgres_url, "--json").json["there"] == 602
    assert (
        terminal("submit", "-t", "greet", "-i", "7", "--key", "k7", "--url", postgres_url, "--json").json["created"]
        is False
    )
    terminal("copy", postgres_url, "sqlite:///back.db")
    with tenure.sync.connect(f"sqlite:///{terminal.folder / 'back.db'}") as back:
        assert back.list(limit=1000) == queue.list(limit=1000)


def test_the_sql_for_postgresql_is_what_a_migration_runs(terminal, postgres_url):
    url = f"{postgres_url}?schema=by_hand"
    assert terminal("migrate", "--check", "--url", url, "--json", code=1).json["before"] == 0
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(terminal("sql", "--url", url).out)
    assert terminal("migrate", "--check", "--url", url, "--json").json["before"] >= 1
    assert terminal("submit", "-t", "greet", "--url", url).code == 0
