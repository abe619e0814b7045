"""Kernels that together ask for every operation: what they compile to is executed, and agrees."""

from __future__ import annotations

import json

import pytest

from tests.lanes import often
from tests.tools.virtual.virtual_process import ROOT, run

BODY = """
sys.path.insert(0, sys.argv[1])
from tests.tools.virtual import test_operations as operations, test_batched as batched
told = {}
for what, made in {**batched.TOGETHER, **batched.ORDERED, **operations.OPERATIONS}.items():
    kernel, grid, named = made()
    mine = getattr(candidate, kernel.__name__, None)
    if mine is None:
        continue
    try:
        mine[grid](**named)
    except Exception as error:
        told[what] = f"not run: {error}"
        continue
    row = judge_asks(kind="log")["launches"][-1]
    told[what] = row.get("not_compared") or row.get("rounds_otherwise") or row.get("compared")
show(told)
"""
FILES = {name: name for name in ("operation_kernels", "batched_kernels")}


@pytest.mark.parametrize("file", often(FILES, set()))
def test_what_every_operation_compiles_to_is_executed_and_agrees(tmp_path, file):
    source = (ROOT / f"tests/tools/virtual/{file}.py").read_text(encoding="utf-8")
    done = run(tmp_path, source, BODY)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr
    told = json.loads(lines[-1].removeprefix("RESULT "))
    ran = {what: said for what, said in told.items() if not str(said).startswith("not run: ")}
    assert len(ran) > 5
    assert "compiled code" not in str(told)
    assert {what: said for what, said in ran.items() if said is not True} == {}
