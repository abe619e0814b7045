"""Every code that a user can meet has a row in troubleshooting."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kernelagent.domain.errors import ExitStatus
from kernelagent.domain.tables.rejection_codes import page_rows
from kernelagent.tools.sandbox import mechanisms

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, str]:
    """First cell to the rest of the row, in the table below a heading."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    cells = [line.strip("| ").split("|", 1) for line in section.splitlines() if "|" in line]
    return {cell[0].strip(" `"): cell[1] for cell in cells[2:]}


def strings(node: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and n.value is not None}


def codes_of_doctor() -> set[str]:
    """The first argument of every `Finding` and `Row`, and of `_package`, which passes it on."""
    trees = [
        ast.parse((ROOT / name).read_text(encoding="utf-8"))
        for name in ("kernelagent/cli/doctor.py", "tools/judge/machine_check.py")
    ]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    named = [
        call.args[0]
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id in {"Finding", "Row", "_package"}
        and call.args
    ]
    return {arg.value for arg in named if isinstance(arg, ast.Constant)}


def tiers_that_can_be_missing() -> set[str]:
    """Keys of `missing[...]` in the sandbox's probe; a name made at run time counts by its end."""
    text = Path(mechanisms.__file__).read_text(encoding="utf-8")
    plain = set(re.findall(r'missing(?:\[|=\{)"([\w ]+)"', text))
    return plain | {f"{name}ns" for name in re.findall(r'^        "(pid|net|ipc)": "', text, re.M)}


def test_every_finding_of_doctor_has_a_row():
    result = codes_of_doctor()
    assert {"python", "torch", "device", "keys"} <= result
    reported = rows("What `doctor` finds")
    assert {code for code in reported if not code.startswith(("sandbox.", "driver."))} == result


def test_every_tier_that_can_be_missing_has_a_row():
    tiers = tiers_that_can_be_missing()
    assert {"linux", "landlock", "pidns"} <= tiers
    reported = rows("What `doctor` finds")
    assert {code for code in reported if code.startswith("sandbox.")} == {
        f"sandbox.{t}" for t in tiers
    }


def test_every_code_of_a_rejection_has_a_row():
    assert page_rows() in PAGE, (
        "print kernelagent.domain.tables.rejection_codes.page_rows() into the page"
    )


def test_every_exit_status_has_a_row():
    assert {int(status) for status in rows("Exit statuses")} == set(ExitStatus)


@pytest.mark.long
def test_sentences_of_errors_are_those_of_the_program():
    """The constant pieces of each quoted sentence stand in some string of the source."""
    folders = [ROOT / name for name in ("kernelagent", "strategies", "tools")]
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    texts = " ".join(
        " ".join(str(s) for s in strings(ast.parse(path.read_text(encoding="utf-8"))))
        for path in sources
    )
    quoted = [q for cell in rows("What ends a run") for q in re.split(r"`, `", cell)]
    pieces = [p.strip(" '`:") for q in quoted for p in re.split(r"\.\.\.|'|cuda:0|\(", q)]
    assert [piece for piece in pieces if len(piece) > 8 and piece not in texts] == []
