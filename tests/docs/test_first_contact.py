"""The closing table of the review before the first GPU: every defect has a test, and every test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from benchmarks.first_contact import MENDS, Mend

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "benchmarks" / "results" / "first_contact.md").read_text(encoding="utf-8")
NAME = r"`(tests/[\w/]+\.py)::(\w+)`"
_FOUND_SINCE = ("e", "f")
"""Mends of later faults, which the first table does not have."""
NAMED = re.findall(NAME, PAGE)


def test_each_of_the_fifteen_defects_has_a_test_beside_its_mend() -> None:
    rows = re.findall(r"^\| (\d+) \|.*::test_\w+` \|$", PAGE, re.MULTILINE)
    assert [int(number) for number in rows] == list(range(1, 16))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_page_names_is_there(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("mend", MENDS, ids=lambda mend: f"{mend.number} {mend.undone}")
def test_a_mend_that_can_be_taken_back_stands_once_in_its_file(mend: Mend) -> None:
    assert (ROOT / mend.file).read_text(encoding="utf-8").count(mend.now) == 1


def test_each_test_that_the_page_names_is_seen_to_fail_without_its_mend() -> None:
    table = PAGE.partition("## Each mend taken back")[0]
    named = {f"{file}::{name}" for file, name in re.findall(NAME, table)}
    assert named == {mend.test for mend in MENDS if mend.number not in _FOUND_SINCE}
    assert "PASSES" not in PAGE


def test_an_edit_that_does_not_fit_any_more_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one, one\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"stands 2 times in a\.py"):
        Mend("1", "", "a.py", "one", "", "").take_back(tmp_path)
