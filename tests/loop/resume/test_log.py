"""The log by itself: what a kill, a reader at the side and an odd reply may not do to it."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import (
    Logged,
    Remarked,
    ReplyReceived,
    RunFinished,
    RunResumed,
    to_line,
)
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from kernelagent.storage.run_state import fold, to_continue

ROOT = Path(__file__).parents[3]
REPLY = ReplyReceived(0, "recorded", "a reply that was paid for")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_a_reply_with_half_a_surrogate_pair_is_logged(folder: RunFolder) -> None:
    EventLog(folder).publish(ReplyReceived(0, "recorded", "a \ud800 b"))
    assert len(list(read_events(folder.log))) == 1


def test_an_event_that_could_not_be_written_leaves_no_gap(folder: RunFolder) -> None:
    log = EventLog(folder)
    with pytest.raises(TypeError):
        log.publish(Remarked("info", object()))  # type: ignore[arg-type]
    log.publish(Remarked("info", "the next one"))
    assert [logged.sequence for logged in read_events(folder.log)] == [0]


def test_a_reader_leaves_the_log_of_a_live_run_as_it_is(folder: RunFolder) -> None:
    EventLog(folder).publish(REPLY)
    half = to_line(Logged(1, 0.0, REPLY)).encode()[:40]
    with folder.log.open("ab") as writer:
        writer.write(half)
    before = folder.log.read_bytes()
    assert len(list(read_events(folder.log))) == 1
    assert folder.log.read_bytes() == before


def test_a_log_has_one_writer(folder: RunFolder) -> None:
    first = EventLog(folder)
    with pytest.raises(UsageError):
        EventLog(folder)
    first.close()
    EventLog(folder).close()


def test_a_reply_that_lacks_only_its_newline_is_kept(folder: RunFolder) -> None:
    EventLog(folder).publish(REPLY)
    folder.log.write_bytes(folder.log.read_bytes().rstrip(b"\n"))
    assert [logged.event for logged in read_events(folder.log)] == [REPLY]


def test_the_night_between_two_parts_of_a_run_is_not_elapsed_time(folder: RunFolder) -> None:
    for began, event in ((1000.0, Remarked("info", "the first part")), (87_400.0, RunResumed())):
        ticks = itertools.count(began)
        log = EventLog(folder, clock=lambda ticks=ticks: next(ticks))
        log.publish(event)
        log.publish(Remarked("info", "one second later"))
        log.publish(Remarked("info", "two seconds later"))
        log.close()
    assert fold(read_events(folder.log)).elapsed_s == 4.0


def test_the_night_after_the_end_of_a_run_is_not_elapsed_time_in_older_logs_either(
    folder: RunFolder,
) -> None:
    times = iter([10.0, 12.0, 90_000.0, 90_001.0])
    log = EventLog(folder, clock=lambda: next(times))
    log.publish(Remarked("info", "it begins"))
    log.publish(RunFinished("none", 1, "the budget is spent"))
    log.publish(Remarked("info", "it goes on"))
    log.publish(Remarked("info", "a second later"))
    state = fold(read_events(folder.log))
    assert state.elapsed_s == 3.0
    assert state.finished is None


def test_a_torn_last_line_is_cut_off_once_by_the_writer_who_says_how_much(
    folder: RunFolder,
) -> None:
    EventLog(folder).publish(REPLY)
    whole = folder.log.read_bytes()
    folder.log.write_bytes(whole + whole[:40])
    log = EventLog(folder)
    assert log.torn_bytes == 40
    assert folder.log.read_bytes() == whole
    log.close()
    assert EventLog(folder).torn_bytes == 0


def test_a_second_writer_is_told_which_process_is_the_first(folder: RunFolder) -> None:
    script = (
        "import sys; from pathlib import Path; from kernelagent.storage.run_log import EventLog, RunFolder;"
        "log = EventLog(RunFolder(Path(sys.argv[1]))); print('open', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", script, str(folder.path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(UsageError, match=f"process {other.pid}"):
            EventLog(folder)
        other.kill()
    EventLog(folder).close()


def test_an_event_whose_writing_was_interrupted_leaves_neither_gap_nor_torn_line(
    folder: RunFolder,
) -> None:
    """As a second Ctrl-C does it, between the write and what follows."""
    log = EventLog(folder)
    log.publish(REPLY)
    with folder.log.open("ab") as file:
        file.write(to_line(Logged(1, 0.0, REPLY)).encode() + b"\n")
        file.write(b'{"schema": "kernelag')
    log.publish(Remarked("info", "the end"))
    assert [logged.sequence for logged in read_events(folder.log)] == [0, 1, 2]


def test_what_a_subscriber_is_told_is_what_the_log_holds(folder: RunFolder) -> None:
    reported: list[Logged] = []
    log = EventLog(folder)
    log.subscribe(reported.append)
    log.publish(ReplyReceived(0, "recorded", "a \ud800 b"))
    assert reported == list(read_events(folder.log))
    assert reported[0].event == ReplyReceived(0, "recorded", "a \ufffd b")


def test_a_number_that_is_no_json_is_read_as_it_was_written(folder: RunFolder) -> None:
    ended = RunFinished("none", 1, "why", spent={"ratio": math.inf})
    EventLog(folder).publish(ended)
    assert next(read_events(folder.log)).event == ended


@pytest.mark.long
@pytest.mark.parametrize("left", [b"", b'{"schema": "kernelagent.event/1", "se', None])
def test_a_run_killed_before_its_first_event_is_said_to_be_one(
    left: bytes | None, folder: RunFolder, tmp_path: Path
) -> None:
    run = RunFolder.create(tmp_path / "runs", "toy", now=0.0)
    if left is not None:
        run.log.write_bytes(left)
    words = ["optimize", "--resume", run.id, "--runs", str(tmp_path / "runs")]
    done = subprocess.run(
        [sys.executable, "-m", "kernelagent", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert "before its first event" in done.stderr
    assert "start it anew" in done.stderr


def test_a_log_of_before_batches_and_resumptions_is_still_read(folder: RunFolder) -> None:
    """There a turn began after its answer, and a remark was an event of its own."""
    request = {"kind": "write", "model": "recorded"}
    data = [
        ("TurnStarted", {"turn": 0, "request": request, "prompt_sha256": "0"}),
        ("ReplyReceived", {"turn": 0, "model": "recorded", "text": "a reply"}),
        ("Remarked", {"level": "warning", "message": "two attempts"}),
        ("TurnStarted", {"turn": 1, "request": request, "prompt_sha256": "1"}),
    ]
    lines = (
        {"schema": "kernelagent.event/1", "seq": n, "time_s": 1.0 + n, "kind": kind, "data": fields}
        for n, (kind, fields) in enumerate(data)
    )
    folder.log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    state = fold(read_events(folder.log))
    _, begun = to_continue(state)
    assert [(item.turn.index, item.turn.reply) for item in begun] == [(0, "a reply")]
    assert state.remarks == ("two attempts",)
    assert state.spent.turns == 1
