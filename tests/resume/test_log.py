"""The log by itself: what a kill, a reader at the side and an odd reply may not do to it.

Every case is open: it fails today, and its mark goes when the log is mended.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.errors import UsageError
from kernelagent.events import Logged, Remarked, ReplyReceived, to_line
from kernelagent.runlog import EventLog, RunFolder, read_events
from kernelagent.state import fold, to_continue

REPLY = ReplyReceived(0, "recorded", "a reply that was paid for")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


@pytest.mark.xfail(strict=True, reason="the line is encoded as strict UTF-8", raises=UnicodeError)
def test_a_reply_with_half_a_surrogate_pair_is_logged(folder: RunFolder) -> None:
    EventLog(folder).publish(ReplyReceived(0, "recorded", "a \ud800 b"))
    assert len(list(read_events(folder.log))) == 1


@pytest.mark.xfail(strict=True, reason="the number is taken before", raises=AssertionError)
def test_an_event_that_could_not_be_written_leaves_no_gap(folder: RunFolder) -> None:
    log = EventLog(folder)
    with pytest.raises(TypeError):
        log.publish(Remarked("info", object()))  # type: ignore[arg-type]
    log.publish(Remarked("info", "the next one"))
    assert [logged.sequence for logged in read_events(folder.log)] == [0]


@pytest.mark.xfail(strict=True, reason="whoever reads cuts the file", raises=AssertionError)
def test_a_reader_leaves_the_log_of_a_live_run_as_it_is(folder: RunFolder) -> None:
    EventLog(folder).publish(REPLY)
    half = to_line(Logged(1, 0.0, REPLY)).encode()[:40]
    with folder.log.open("ab") as writer:
        writer.write(half)
    before = folder.log.read_bytes()
    assert len(list(read_events(folder.log))) == 1
    assert folder.log.read_bytes() == before


@pytest.mark.xfail(strict=True, reason="nothing keeps a second `--resume` from the same log")
def test_a_log_has_one_writer(folder: RunFolder) -> None:
    first = EventLog(folder)
    with pytest.raises(UsageError):
        EventLog(folder)
    first.close()
    EventLog(folder).close()


@pytest.mark.xfail(strict=True, reason="all after the newline is dropped", raises=AssertionError)
def test_a_reply_that_lacks_only_its_newline_is_kept(folder: RunFolder) -> None:
    EventLog(folder).publish(REPLY)
    folder.log.write_bytes(folder.log.read_bytes().rstrip(b"\n"))
    assert [logged.event for logged in read_events(folder.log)] == [REPLY]


@pytest.mark.xfail(strict=True, reason="last event minus first event", raises=AssertionError)
def test_the_night_between_two_parts_of_a_run_is_not_elapsed_time(folder: RunFolder) -> None:
    for began in (1000.0, 1000.0 + 86_400):
        ticks = iter(range(10))
        log = EventLog(folder, clock=lambda began=began, ticks=ticks: began + next(ticks))
        for _ in range(3):
            log.publish(Remarked("info", "one second later"))
        log.close()
    state = fold(read_events(folder.log))
    assert to_continue(state)
    assert state.last_s - state.started_s < 60
