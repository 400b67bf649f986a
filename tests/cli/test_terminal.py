"""What a person sees: colour and tables, questions, progress and moving pictures."""

import re

import pexpect
import pytest

from tenure import TaskStatus

GREEN, YELLOW, RED = "\x1b[32m", "\x1b[33m", "\x1b[31m"


def shown(screen) -> str:
    """Everything until the command ends."""
    screen.expect(pexpect.EOF)
    screen.close()
    return screen.before


def test_a_table_has_colour_at_a_terminal(terminal, queue):
    queue.submit("greet")
    picture = shown(terminal.screen("list"))
    assert "───" in picture
    assert f"{YELLOW}pending" in picture


def test_no_colour_where_it_is_not_wanted(terminal, queue):
    queue.submit("greet")
    assert "\x1b[3" not in shown(terminal.screen("list", NO_COLOR="1"))
    assert "\x1b" not in shown(terminal.screen("list", TERM="dumb"))
    assert "\x1b" not in shown(terminal.screen("list", "--json"))


def test_status_and_history_have_colour_and_the_same_words(terminal, queue):
    task = queue.submit("greet", ttl=9000.9)
    queue.cancel(task.id)
    picture = shown(terminal.screen("status", task.id))
    assert "\x1b[1mstatus: \x1b[0m\x1b[35mcancelled" in picture
    plain = re.sub(r"\x1b\[[\d;]*m", "", picture)
    assert "(in 2h 30m)" in plain
    assert "\x1b[35mcancelled" in shown(terminal.screen("history", task.id))


def test_a_bulk_change_asks_first(terminal, queue):
    queue.submit_many([("greet", number) for number in range(3)])
    screen = terminal.screen("cancel", "--type", "greet")
    screen.expect(r"Cancel 3 tasks\? \[y/N\]")
    screen.sendline("n")
    assert "Nothing was done." in shown(screen)
    assert screen.exitstatus == 1
    assert queue.counts()[TaskStatus.Pending] == 3
    screen = terminal.screen("cancel", "--type", "greet")
    screen.expect(r"Cancel 3 tasks\?")
    screen.sendline("y")
    assert "Cancelled 3 tasks" in shown(screen)
    assert queue.counts()[TaskStatus.Cancelled] == 3


def test_a_long_submit_shows_its_progress(terminal):
    (terminal.folder / "many.jsonl").write_text('{"type": "greet"}\n' * 2000)
    picture = shown(terminal.screen("submit", "--many", "many.jsonl", "--key", "k"))
    assert "submitting" in picture
    assert "2000/2000" in picture or "1500/2000" in picture or "500/2000" in picture
    assert "2000 created" in picture


def test_a_worker_shows_a_line_of_throughput_and_ends_with_ctrl_c(terminal, queue):
    queue.submit_many([("greet", {"name": number}) for number in range(20)])
    screen = terminal.screen("worker", "shop:app")
    screen.expect("20 completed")
    screen.expect(r"\d+/s")
    screen.sendintr()
    assert "SIGINT: finishing" in shown(screen)
    assert screen.exitstatus == 0


def test_a_supervisor_shows_the_line_for_all_its_processes(terminal, queue):
    queue.submit_many([("greet", {"name": number}) for number in range(20)])
    screen = terminal.screen("worker", "shop:app", "--processes", "2")
    screen.expect("20 completed")
    screen.sendintr()
    shown(screen)
    assert screen.exitstatus == 0


@pytest.mark.parametrize("size", [(24, 80), (50, 160)])
def test_top_fills_the_screen_and_leaves_with_q(terminal, queue, size):
    queue.submit("a_type_with_a_rather_long_name")
    screen = terminal.screen("top", "--interval", "200ms", size=size)
    for words in ("tenure top", "waiting without a worker", "pending", "a_type", "failed %", "workers", "dead letters"):
        screen.expect(words)
    screen.send("q")
    rest = shown(screen)
    assert "\x1b[?1049l" in rest, "the screen is given back"
    assert screen.exitstatus == 0


def test_tail_ends_with_ctrl_c_without_a_word(terminal, queue):
    screen = terminal.screen("tail", "--since", "1h")
    queue.submit("greet")
    screen.expect("greet  created")
    screen.sendintr()
    assert "Traceback" not in shown(screen)
    assert screen.exitstatus == 130


def test_help_is_drawn_at_a_terminal(terminal):
    assert "╭─" in shown(terminal.screen("submit", "--help"))


def test_the_first_page_is_plain_and_in_groups(terminal):
    page = shown(terminal.screen("--help")).replace("\r\n", "\n")
    assert page == terminal.process("--help").out
    assert re.findall(r"^(\w+):$", page, re.MULTILINE) == ["Options", "Tasks", "Work", "Watch", "Move", "Store", "More"]


def test_doctor_marks_what_is_wrong(terminal, queue):
    queue.submit("waits")
    picture = shown(terminal.screen("doctor"))
    assert "\x1b[1;31m✗ workers:" in picture
