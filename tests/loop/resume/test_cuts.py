"""A log that ends after any event, or in the middle of one: the resumed run is the uninterrupted one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from kernelagent.domain.events import (
    Evaluated,
    Event,
    ReplyReceived,
    RunFinished,
    TurnStarted,
    from_line,
    to_line,
)
from kernelagent.strategies import BUILT_IN
from tests.loop.resume.recorded_run import REMARKED, conduct, config_of
from tests.loop.resume.same_run import BATCHES, RUN, answered, asked, differences


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an uninterrupted run of each strategy."""
    root = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        for strategy in BUILT_IN:
            (root / strategy).mkdir()
            patch.chdir(root / strategy)
            conduct(root / strategy / RUN, config_of(strategy), resume=False)
    return root


def lines_of(run: Path) -> list[bytes]:
    return (run / "events.jsonl").read_bytes().splitlines(keepends=True)


def kind_of(line: bytes) -> str:
    return type(from_line(line.decode()).event).__name__


def resume_from(
    log: bytes, strategy: str, whole: Path, where: Path, patch: pytest.MonkeyPatch
) -> list[str]:
    """Resume a run that has left only `log`; what tells it from the whole one."""
    run = where / RUN
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    (run / "events.jsonl").write_bytes(log)
    for kept in ("candidates", "prompts"):
        shutil.copytree(whole / kept, run / kept)
    before = answered(run)
    patch.chdir(where)
    conduct(run, config_of(strategy), resume=True)
    assert not before & set(asked(run)), "a logged reply was asked for again"
    return differences(run, whole)


def cuts_that_show(
    strategy: str, lengths: Iterable[int], wholes: Path, where: Path, patch: pytest.MonkeyPatch
) -> dict[str, list[str]]:
    """By the last event left of the log: what tells the resumed run from the whole one."""
    whole = wholes / strategy / RUN
    lines = lines_of(whole)
    shown = {}
    for length in lengths:
        reported = resume_from(b"".join(lines[:length]), strategy, whole, where, patch)
        if reported:
            shown[f"event {length - 1}, {kind_of(lines[length - 1])}"] = reported
    return shown


@pytest.mark.long
@pytest.mark.parametrize("strategy", BUILT_IN)
def test_a_run_that_was_cut_between_two_events_goes_on_as_if_it_had_not(
    strategy: str, wholes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = 1 + list(BUILT_IN).index(strategy), len(lines_of(wholes / strategy / RUN))
    lengths = range(first, last + 1, 17)
    shown = cuts_that_show(strategy, lengths, wholes, tmp_path, monkeypatch)
    assert not shown


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", BUILT_IN)
def test_a_run_goes_on_from_the_end_of_every_one_of_its_events(
    strategy: str, wholes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = range(1, len(lines_of(wholes / strategy / RUN)) + 1)
    shown = cuts_that_show(strategy, lengths, wholes, tmp_path, monkeypatch)
    assert not shown


@pytest.mark.parametrize("event", [3, 31, 60, 100])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98, 1.0])
def test_a_torn_last_line_is_as_if_it_had_never_been_begun(
    event: int, share: float, wholes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = wholes / "window" / RUN
    lines = lines_of(whole)
    torn = lines[event].rstrip(b"\n")
    log = b"".join(lines[:event]) + torn[: max(1, round(share * len(torn)))]
    reported = resume_from(log, "window", whole, tmp_path, monkeypatch)
    assert not reported


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_line_torn_at_any_of_its_bytes_is_as_if_it_had_never_been_begun(
    wholes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = wholes / "window" / RUN
    lines = lines_of(whole)
    for offset in range(1, len(lines[-1])):
        log = b"".join(lines[:-1]) + lines[-1][:offset]
        reported = resume_from(log, "window", whole, tmp_path, monkeypatch)
        assert not reported, offset


def first_cut(run: Path, after: Callable[[Event], bool]) -> int:
    events = [from_line(line.decode()).event for line in lines_of(run)]
    return 1 + next(number for number, event in enumerate(events) if after(event))


def test_a_turn_that_is_asked_again_is_counted_once(
    wholes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = first_cut(wholes / "window" / RUN, lambda event: isinstance(event, TurnStarted))
    shown = cuts_that_show("window", [cut], wholes, tmp_path, monkeypatch)
    assert "state.spent" not in str(shown)


def test_the_remark_on_a_logged_reply_is_not_lost(
    wholes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_remarked_reply(event: Event) -> bool:
        return isinstance(event, ReplyReceived) and event.turn in REMARKED

    cut = first_cut(wholes / "window" / RUN, is_remarked_reply)
    shown = cuts_that_show("window", [cut], wholes, tmp_path, monkeypatch)
    assert "state.remarks" not in str(shown)


def test_a_run_that_had_ended_remarks_on_its_winner_once(
    wholes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = first_cut(wholes / "window" / RUN, lambda event: isinstance(event, RunFinished))
    shown = cuts_that_show("window", [cut], wholes, tmp_path, monkeypatch)
    assert "state.remarks" not in str(shown)


@pytest.mark.parametrize("strategy", sorted(BATCHES))
def test_the_rest_of_a_batch_is_asked_with_the_same_prompts(
    strategy: str, wholes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = first_cut(wholes / strategy / RUN, lambda event: isinstance(event, Evaluated))
    shown = cuts_that_show(strategy, [cut], wholes, tmp_path, monkeypatch)
    assert "prompts" not in str(shown)


def test_a_turn_in_flight_is_asked_again_though_a_later_one_was_answered(
    wholes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Side by side, the answer of turn 1 may come first; the kill comes before that of turn 0."""
    whole = wholes / "best-of-n" / RUN
    events = [from_line(line.decode()) for line in lines_of(whole)]
    asked_first = next(n for n, e in enumerate(events) if isinstance(e.event, ReplyReceived))
    is_reply_1 = (e for e in events if isinstance(e.event, ReplyReceived) and e.event.turn == 1)
    arrived = replace(next(is_reply_1), sequence=asked_first)
    log = "".join(to_line(event) + "\n" for event in [*events[:asked_first], arrived]).encode()
    assert not resume_from(log, "best-of-n", whole, tmp_path, monkeypatch)
