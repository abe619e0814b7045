"""The recorded turns of a strong writer: whole files, with a module for each, and counted as they are told."""

from __future__ import annotations

import pytest

from benchmarks.recorded_turns import FOLDER, LOST, NAMES, Row, judged, table
from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.storage.cassette import recording
from tests.judges import JudgesHere

EVERY = {name: recording(str(FOLDER / f"{name}.jsonl")) for name in NAMES}


def test_every_recorded_turn_is_a_candidate_for_a_module_that_stands_beside_it() -> None:
    assert sum(map(len, EVERY.values())) == 26
    for name, replies in EVERY.items():
        assert (FOLDER / f"{name}.py").is_file()
        assert all(isinstance(parse_reply(reply.text), Candidate) for reply in replies)


def test_eight_turns_ended_as_the_interpreters_budget_had_it() -> None:
    """The page that was written of these conversations counts nine; one has no such verdict here."""
    lost = [r for replies in EVERY.values() for r in replies if r.verdict in LOST]
    assert len(lost) == 8


def test_the_table_counts_lost_turns_and_what_is_said_wrongly() -> None:
    rows = [
        Row("a", 0, "timeout", "accepted", 3.0, "Accepted.\nEstimate: 1 µs"),
        Row("a", 1, "accepted", "unverifiable", 3.0, "Could not be judged: raise --device cuda"),
        Row("a", 2, "accepted", "wrong_output", 3.0, "Rejected: off\n- pattern: offset"),
    ]
    text = table(rows)
    assert "Lost to the device's limits: 1 of 3 then, 1 today." in text
    assert "Misleading findings of then that are said today: 2." in text
    assert "- a, turn 1: a flag that no writer can pass" in text
    assert "- a, turn 2: tf32 called an offset" in text


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["layer_norm", "exclusive_cumsum"])
def test_no_recorded_turn_is_lost_to_the_device_nor_answered_misleadingly(
    name: str, judges: JudgesHere
) -> None:
    rows = list(judged(name, 600.0, judges=judges))
    assert {row.turn: row.today for row in rows if row.today in LOST} == {}
    assert [what for row in rows for what in row.misled] == []
