"""The closing table of the review before the first GPU: every defect has a test, and every test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "benchmarks" / "results" / "first_contact.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def test_each_of_the_fifteen_defects_has_a_test_beside_its_mend() -> None:
    rows = re.findall(r"^\| (\d+) \|.*::test_\w+` \|$", PAGE, re.MULTILINE)
    assert [int(number) for number in rows] == list(range(1, 16))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_page_names_is_there(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
