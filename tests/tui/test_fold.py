from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.tui_runs import made_events, made_run, reply
from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import Logged, ReplyProgressed, Steered, TurnStarted, to_line
from kernelagent.domain.history import TurnRequest
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.run_state import fold
from kernelagent.tui.curve import curve
from kernelagent.tui.follow import Follower
from kernelagent.tui.panels import best_text, large_number, now_text, spend_text
from kernelagent.tui.panels import limits_of as limits
from kernelagent.tui.turns.tree_rows import tree_rows
from kernelagent.tui.view import AXES, View


def view_of(turns: int, *, measured: bool = False) -> View:
    view = View()
    for number, event in enumerate(made_events(turns, measured=measured)):
        view.take(Logged(number, 1000.0 + number, event))
    return view


def lines_of(turns: int) -> list[bytes]:
    events = enumerate(made_events(turns))
    return [to_line(Logged(number, 1.0, event)).encode() + b"\n" for number, event in events]


def test_what_is_read_piece_by_piece_is_the_log(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    data = b"".join(lines_of(6))
    follower, result = Follower(log), list(Follower(log).poll())
    for end in range(0, len(data), 97):
        log.write_bytes(data[: end + 97])
        result += follower.poll()
    assert result == list(read_events(log))


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    first, second, *_ = lines_of(1)
    follower = Follower(log)
    log.write_bytes(first + second[:-1])
    assert [logged.sequence for logged in follower.poll()] == [0]
    assert follower.poll() == ()
    log.write_bytes(first + second)
    assert [logged.sequence for logged in follower.poll()] == [1]


def test_a_line_longer_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    text = "x" * 700_000
    start = to_line(Logged(0, 1.0, TurnStarted(0, TurnRequest("write", "m"), "0")))
    long = to_line(Logged(1, 1.0, ReplyProgressed(0, text, len(text))))
    log.write_text(f"{start}\n{long}\n", encoding="utf-8")
    follower = Follower(log)
    assert [logged.sequence for logged in (*follower.poll(), *follower.poll())] == [0, 1]


def test_an_event_that_is_missing_is_told(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    lines = lines_of(2)
    log.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    with pytest.raises(UsageError, match="event 3 is missing"):
        Follower(log).poll()


def test_a_log_that_was_replaced_is_told(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_bytes(b"".join(lines_of(2)))
    follower = Follower(log)
    follower.poll()
    log.write_bytes(lines_of(1)[0])
    with pytest.raises(UsageError, match="became shorter"):
        follower.poll()


@pytest.mark.parametrize("measured", [True, False], ids=["measured", "estimated"])
def test_the_view_is_the_runs_own_fold(tmp_path: Path, measured: bool) -> None:
    folder = made_run(tmp_path, 40, measured=measured)
    view = View()
    for logged in read_events(folder.log):
        view.take(logged)
    assert view.state == fold(read_events(folder.log))
    assert view.best == view.state.history.best
    assert len(view.points) == 40
    assert view.points[-1].tokens == view.state.spent.tokens


def test_a_measured_number_has_its_interval_and_an_estimate_is_called_so() -> None:
    measured, estimated = view_of(20, measured=True), view_of(20)
    assert large_number(measured).endswith("x")
    assert "vs eager [" in best_text(measured).plain
    assert "ESTIMATE" in best_text(estimated).plain
    assert "[" not in best_text(estimated).plain
    assert large_number(View()) == "-"


def test_each_verdict_has_a_mark_that_needs_no_colour() -> None:
    view = view_of(20)
    marks = {row.text.plain.split()[1] for row in tree_rows(view)}
    assert marks == {"✓", "✗", "∅"}


def test_the_tree_shows_every_turn_once_and_the_newest_last() -> None:
    rows = tree_rows(view_of(200))
    assert sorted(row.turn for row in rows) == list(range(200))
    assert (rows[-1].turn, rows[-1].depth) == (199, 0)


def test_a_turn_stands_below_the_one_it_refines() -> None:
    view = view_of(200)
    place = {row.turn: number for number, row in enumerate(tree_rows(view))}
    for turn in view.state.history.turns:
        if turn.request.parent is not None:
            assert place[turn.request.parent] < place[turn.index]


@pytest.mark.parametrize("axis", AXES)
def test_the_curve_fills_its_box_and_never_falls(axis: str) -> None:
    view = view_of(60)
    drawn = curve(view.points, axis, 60, 8).plain.split("\n")  # type: ignore[arg-type]
    assert len(drawn) == 8
    assert max(map(len, drawn)) <= 60
    tops = []
    for column in range(7, 60):
        dots = [row for row in range(7) if column < len(drawn[row]) and drawn[row][column] != "⠀"]
        tops += dots[:1]
    assert tops == sorted(tops, reverse=True)


def test_a_reply_that_arrives_is_shown_by_its_end_and_counted_whole() -> None:
    view = view_of(3)
    view.take(Logged(90, 2000.0, TurnStarted(3, TurnRequest("write", "m"), "0")))
    for number, start in enumerate(range(0, 900, 300)):
        piece = reply(3)[start : start + 300]
        view.take(Logged(91 + number, 2000.0, ReplyProgressed(3, piece, start + 300)))
    shown = now_text(view, True, 2001.0, 60, 6).plain
    assert "turn 3: reply arriving, 900 characters" in shown
    assert len(shown.split("\n")) <= 6
    assert shown.endswith(reply(3)[:900].split("\n")[-1])


def test_what_the_user_said_stays_in_sight_while_it_holds() -> None:
    view = view_of(3)
    for number, steered in enumerate(
        (
            Steered("1", "ban", "atomics"),
            Steered("2", "pin", turn=1),
            Steered("3", "hint", "fewer passes"),
            Steered("4", "pause"),
            Steered("5", "pin", turn=99, refused="there is no turn 99"),
        )
    ):
        view.take(Logged(100 + number, 2000.0, steered))
    shown = now_text(view, True, 2001.0, 70, 12).plain
    for words in ("paused", "ruled out: atomics", "next turns: 1", "hint for the next turn: fewer"):
        assert words in shown
    assert [row.turn for row in tree_rows(view) if "⚑" in row.text.plain] == [1]


def test_spend_stands_against_the_limits_that_the_user_has_raised() -> None:
    view = view_of(3)
    before = spend_text(view, limits(view.state), 65.0, 120).plain
    assert "turns 3/1.0k" in before
    assert "1:05" in before
    view.take(Logged(100, 2000.0, Steered("1", "budget", limits={"dollars": 7.5})))
    assert "/7.5" in spend_text(view, limits(view.state), 65.0, 120).plain


def test_nothing_in_a_runs_folder_changes_by_looking(tmp_path: Path) -> None:
    folder = made_run(tmp_path, 5)
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    follower, view = Follower(RunFolder(folder.path).log), View()
    while events := follower.poll():
        for logged in events:
            view.take(logged)
    assert view.events == len(folder.log.read_bytes().splitlines())
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before
    assert json.loads(folder.log.read_bytes().splitlines()[0])["kind"] == "RunStarted"
