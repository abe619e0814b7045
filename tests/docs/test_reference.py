from __future__ import annotations

from pathlib import Path

from kernelagent.cli.reference import PAGE, reference

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_what_the_command_says_of_itself() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page == reference(), "run `python -m kernelagent.cli.reference`"
