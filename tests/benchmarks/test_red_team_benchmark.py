"""The tables of the rounds are read as they were written, whatever an attacker says, and no honest row is forgotten."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import red_team_rounds
from benchmarks.red_team_rounds import Attack, Figures, Judged, again_keys, read_round, rows_of

ROUNDS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
BENCHMARKS = Path(red_team_rounds.__file__).parent


def attack(name: str, idea: str = "", named: str = "", naming: str = "") -> Attack:
    return Attack("a", name, "problem", "triton", idea, "accepted", named, "", naming)


def test_a_bar_in_what_an_attacker_says_tears_no_row(tmp_path: Path) -> None:
    rows = [
        Judged(attack("rounds", "takes floor(|x| + 0.5) | for round"), "wrong_output"),
        Judged(attack("keeps", "|", naming="keeps_state"), "accepted", ("keeps_state", "other")),
    ]
    table = tmp_path / "table.md"
    attacks = [row.attack for row in rows]
    by_key = {row.attack.key: row for row in rows}
    table.write_text(red_team_rounds.page("first", by_key, attacks, 2))
    assert rows_of(table, attacks) == by_key


def test_an_honest_candidate_that_was_refused_is_judged_again() -> None:
    rows = [
        Judged(attack("honest_one"), "wrong_output"),
        Judged(attack("honest_two"), "no judging: it failed"),
        Judged(attack("honest_three"), "accepted"),
        Judged(attack("honest_four", named="not counted: it is wrong"), "wrong_output"),
        Judged(attack("stands"), "accepted"),
        Judged(attack("told", naming="keeps_state"), "accepted", ("keeps_state",)),
        Judged(attack("falls"), "wrong_output"),
    ]
    refused = {"a/honest_one", "a/honest_two"}
    assert again_keys(rows, past_only=True) == {*refused, "a/stands"}
    assert again_keys(rows, past_only=False) == {*refused, "a/stands", "a/told", "a/honest_three"}
    assert Figures.of(rows) == Figures(hostile=3, accepted=2, past=1, honest=3, honest_refused=2)


@pytest.mark.parametrize("name", ROUNDS)
def test_each_table_is_what_is_written_of_its_rows(name, monkeypatch) -> None:
    written: list[str] = []
    table = BENCHMARKS / "results" / f"red_team_{name}.md"
    before = table.read_text(encoding="utf-8").splitlines()
    monkeypatch.setattr(Path, "write_text", lambda _, text, **how: written.append(text))
    monkeypatch.setattr(sys, "argv", ["red_team_rounds", name, "--no-judging"])
    red_team_rounds.main()
    # How many were judged in the last call is not in its rows.
    line = next(n for n, text in enumerate(before) if "judged again in the last call" in text)
    again = written[0].splitlines()
    assert again[:line] + again[line + 1 :] == before[:line] + before[line + 1 :]


@pytest.mark.parametrize("name", ROUNDS)
def test_the_page_says_what_the_table_says(name) -> None:
    _, attacks = read_round(BENCHMARKS / "rounds" / f"{name}.jsonl")
    table = BENCHMARKS / "results" / f"red_team_{name}.md"
    now = Figures.of(rows_of(table, attacks).values())
    row = (
        f"| [{name}](../benchmarks/results/{table.name}) | {now.hostile} | {now.accepted} | "
        f"{now.past} ({now.past_percent:.0f} %) | {now.honest_refused} of {now.honest} |"
    )
    assert row in (BENCHMARKS.parent / "docs" / "red-team.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ROUNDS)
def test_what_names_a_candidate_is_said_of_one_of_its_round(name) -> None:
    _, attacks = read_round(BENCHMARKS / "rounds" / f"{name}.jsonl")
    named = json.loads((BENCHMARKS / "rounds" / f"{name}_named.json").read_text(encoding="utf-8"))
    assert named.keys() <= {attack.key for attack in attacks}
