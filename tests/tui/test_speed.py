"""How fast the screens are, in processor seconds: another load on the machine makes nothing red."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from benchmarks.tui_runs import made_run
from benchmarks.tui_speed import SOAK_PER_S, TURNS, attach_s, keys_ms, soak
from kernelagent.storage.run_log import RunFolder

ATTEMPTS = 3


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return made_run(tmp_path_factory.mktemp("long"), TURNS)


@pytest.mark.long
def test_a_run_of_a_thousand_turns_is_attached_to_within_a_second(long_run: RunFolder) -> None:
    assert min(attach_s(long_run) for _ in range(ATTEMPTS)) < 1.0


@pytest.mark.long
def test_a_key_reaches_the_screen_within_50_ms_while_a_reply_streams(long_run: RunFolder) -> None:
    medians = (statistics.median(keys_ms(long_run, 24)) for _ in range(ATTEMPTS))
    assert any(median < 50 for median in medians)


@pytest.mark.long
def test_no_event_is_lost_in_ten_seconds_at_a_hundred_a_second(tmp_path: Path) -> None:
    result = soak(made_run(tmp_path, 50), 10.0)
    assert result.written >= 10 * SOAK_PER_S
    assert (result.seen, result.in_order) == (result.written, True)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_no_event_is_lost_in_five_minutes_at_a_hundred_a_second(tmp_path: Path) -> None:
    result = soak(made_run(tmp_path, 50), 300.0)
    assert result.written >= 300 * SOAK_PER_S
    assert (result.seen, result.in_order) == (result.written, True)
