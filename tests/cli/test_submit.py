"""`tenure submit`."""

import json

import pytest

from tenure import TaskStatus


def test_submit_prints_the_id_of_a_durable_task(terminal, queue):
    answer = terminal.process("submit", "-t", "greet", "-i", '{"name": "Ada", "emoji": "☕"}')
    task = queue.get(answer.out.strip())
    assert (task.type, task.input, task.status) == ("greet", {"name": "Ada", "emoji": "☕"}, TaskStatus.Pending)


def test_every_option_reaches_the_task(terminal, queue):
    words = (
        "submit -t greet --delay 5m --ttl 1h30m --queue mail --priority 7 --ordering-key ada --max-attempts 3"
        " --timeout 30s --tag red --tag green --id mine --json"
    )
    task = terminal(*words.split()).json
    assert json.loads(json.dumps(queue.get("mine").to_dict())) == task
    assert (task["queue"], task["priority"], task["ordering_key"]) == ("mail", 7, "ada")
    assert (task["max_attempts"], task["timeout"], task["tags"]) == (3, 30.0, ["red", "green"])
    stored = queue.get("mine")
    assert (stored.available_at - stored.created_at).total_seconds() == 300
    assert (stored.expires_at - stored.created_at).total_seconds() == 5400


def test_points_in_time_are_read_as_utc_unless_they_say_otherwise(terminal):
    task = terminal(
        "submit", "-t", "greet", "--at", "2031-01-28T17:00:00", "--expires-at", "2031-01-28T19:00:00+01:00", "--json"
    ).json
    assert (task["available_at"], task["expires_at"]) == ("2031-01-28T17:00:00Z", "2031-01-28T18:00:00Z")


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("5m", 300), ("1h", 3600), ("7d", 604_800), ("2w", 1_209_600), ("90", 90), ("1h30m", 5400), ("250ms", 0.25), ("0s", 0)])  # fmt: skip
def test_durations_have_units(terminal, queue, text, seconds):
    task = queue.get(terminal("submit", "-t", "greet", "--ttl", text).out.strip())
    assert (task.expires_at - task.created_at).total_seconds() == seconds


def test_the_input_comes_from_a_file_or_from_stdin(terminal, queue):
    (terminal.folder / "input.json").write_text('{"from": "file"}')
    from_file = terminal("submit", "-t", "greet", "-i", "@input.json").out.strip()
    from_stdin = terminal.process("submit", "-t", "greet", "-i", "-", stdin='{"from": "stdin"}').out.strip()
    assert [queue.get(task_id).input for task_id in (from_file, from_stdin)] == [{"from": "file"}, {"from": "stdin"}]


def test_without_an_input_it_is_null(terminal, queue):
    assert queue.get(terminal("submit", "-t", "greet").out.strip()).input is None


def test_a_repeat_finds_the_task_and_says_so(terminal):
    first = terminal("submit", "-t", "greet", "-i", "1", "--key", "k")
    again = terminal("submit", "-t", "greet", "-i", "1", "--key", "k")
    assert again.out == first.out
    assert again.err == "note: it was there already, and is pending.\n"
    assert terminal("submit", "-t", "greet", "-i", "1", "--key", "k", "--json").json["created"] is False


def test_the_same_key_with_another_input_is_refused(terminal, queue):
    terminal("submit", "-t", "greet", "-i", "1", "--key", "k")
    answer = terminal("submit", "-t", "greet", "-i", "2", "--key", "k", code=1)
    assert answer.err.startswith("error: key 'k' in scope 'greet' already belongs to task")
    assert queue.counts()[TaskStatus.Pending] == 1


def test_a_key_has_a_scope_and_a_time_to_live(terminal):
    first = terminal("submit", "-t", "greet", "--key", "k", "--key-scope", "queue", "--key-ttl", "0s").out
    assert terminal("submit", "-t", "greet", "--key", "k", "--key-scope", "queue").out != first
    for_ever = terminal("submit", "-t", "greet", "--key", "always", "--key-ttl", "never", "--json").json
    assert for_ever["remember_until"].startswith("9999")


def test_a_slot_holds_one_task(terminal):
    words = ("submit", "-t", "greet", "--slot", "summary#42", "2031-01-28")
    assert terminal(*words).out == terminal(*words).out
    assert terminal(*words[:-1], "2031-01-29").out != terminal(*words).out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-i", "{}"], "Give the type of the task"),
        (["-t", "greet", "-i", "{not json"], "-i is not JSON"),
        (["-t", "greet", "-i", "@nowhere.json"], "Cannot read nowhere.json"),
        (["-t", "greet", "-i", "NaN"], "input is nan"),
        (["-t", ""], "type is empty"),
        (["-t", "greet", "--ttl", "soon"], "'soon' is no duration. Write it like 30s, 5m"),
        (["-t", "greet", "--ttl", "99999999w"], "leads past the year 9999"),
        (["-t", "greet", "--at", "tomorrow"], "'tomorrow' is no time"),
        (["-t", "greet", "--ttl", "1h", "--expires-at", "2031-01-01"], "Give only one of"),
        (["-t", "greet", "--priority", "high"], "--priority"),
        (["-t", "greet", "--many", "x.jsonl"], "--many reads type, input"),
        (["--many", "nowhere.jsonl"], "Cannot read nowhere.jsonl"),
    ],
)
def test_wrong_words_are_a_usage_error_and_submit_nothing(terminal, queue, words, error):
    answer = terminal("submit", *words, code=2)
    assert error in answer.err
    assert answer.out == ""
    assert len(answer.err.splitlines()) <= 2
    assert not any(queue.counts().values())


def write_lines(terminal, lines):
    (terminal.folder / "many.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


def test_many_submits_each_line_with_its_own_options(terminal, queue):
    write_lines(
        terminal,
        [
            {"type": "greet", "input": 1, "ttl": "1h", "tags": ["a"], "key": "one"},
            {"task_type": "greet", "input": 2, "delay": 60, "queue": "mail"},
            {"type": "other", "at": "2031-01-28T17:00:00Z"},
        ],
    )
    answer = terminal("submit", "--many", "many.jsonl", "--priority", "3", "--json")
    assert answer.json == {"lines": 3, "created": 3, "existing": 0, "refused": []}
    other, second, first = queue.list().tasks
    assert (first.idempotency_key, first.tags, first.priority) == ("one", ("a",), 3)
    assert (second.queue, second.input) == ("mail", 2)
    assert other.available_at.isoformat() == "2031-01-28T17:00:00+00:00"


def test_many_goes_on_after_an_interruption_by_its_keys(terminal, queue):
    lines = [{"type": "greet", "input": number} for number in range(1200)]
    write_lines(terminal, lines[:700])
    terminal("submit", "--many", "many.jsonl", "--key", "batch")
    write_lines(terminal, lines)
    answer = terminal.process("submit", "--many", "many.jsonl", "--key", "batch")
    assert answer.out == "500 created, 700 there already, 0 refused\n"
    assert queue.counts()[TaskStatus.Pending] == 1200


def test_many_without_keys_warns_that_a_second_run_would_double(terminal):
    write_lines(terminal, [{"type": "greet"}] * 2)
    assert "2 lines have no key; a second run would submit them again" in terminal("submit", "--many", "many.jsonl").err


def test_a_conflict_in_a_file_stops_no_other_line(terminal, queue):
    queue.submit("greet", "first", idempotency_key="taken")
    write_lines(terminal, [{"type": "greet", "input": n, "key": key} for n, key in enumerate(["a", "taken", "b"])])
    answer = terminal("submit", "--many", "many.jsonl", code=1)
    assert answer.out == "2 created, 0 there already, 1 refused\n"
    assert answer.err.startswith("line 2: key 'taken'")
    assert queue.counts()[TaskStatus.Pending] == 3


@pytest.mark.parametrize(
    ("line", "error"),
    [("nonsense", "line 2 is not JSON"), ("[]", "line 2 must be an object with a type"), ('{"type": "x", "ttl": "?"}', "line 2: ttl")],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(terminal, line, error):
    (terminal.folder / "many.jsonl").write_text('{"type": "greet"}\n' + line)
    assert error in terminal("submit", "--many", "many.jsonl", code=2).err


def test_wait_prints_the_result(terminal):
    waiting = terminal.start("submit", "-t", "greet", "-i", '{"name": "Ada"}', "--wait", "--wait-timeout", "1m")
    task_id = waiting.stdout.readline().strip()
    terminal.process("worker", "shop:app", "--burst")
    assert waiting.communicate(timeout=30)[0] == '"hello Ada"\n'
    assert waiting.returncode == 0
    assert terminal("status", task_id, "--json").json["status"] == "completed"


def test_waiting_ends_with_its_patience_or_with_a_failure(terminal, queue):
    answer = terminal("submit", "-t", "greet", "--wait", "--wait-timeout", "0s", code=1)
    assert "was still pending after 0 s" in answer.err
    queue.cancel(answer.out.strip(), reason="not needed")
    again = terminal("submit", "-t", "greet", "--id", "x", "--json").json
    queue.cancel(again["id"], reason="not needed")
    assert "ended as cancelled: not needed" in terminal("submit", "-t", "greet", "--id", "x", "--wait", code=1).err
