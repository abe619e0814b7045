"""The table of benchmarks/gate_table.py as tests: no honest kernel refused, no wrong one accepted."""

from __future__ import annotations

import pytest

from benchmarks.gate_cases import OPERATIONS
from benchmarks.gate_table import rows


@pytest.mark.long
@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(op, id=op.name, marks=[] if at % 3 == 2 else [pytest.mark.long])
        for at, op in enumerate(OPERATIONS)
    ],
)
def test_honest_kernels_pass_every_probe_and_wrong_ones_fail_one(operation):
    result = list(rows(operation, seed=20))
    misjudged = [(r.version, r.dtype, r.refused_on, r.ratio) for r in result if not r.right]
    assert misjudged == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_no_seed_makes_an_honest_kernel_fail(operation, seed):
    refused = [
        (r.version, r.dtype, r.ratio) for r in rows(operation, seed) if r.honest and not r.right
    ]
    assert refused == []


def test_the_table_has_enough_of_both_kinds():
    honest = sum(len(op.honest) for op in OPERATIONS)
    wrong = sum(len(op.wrong) + len(op.wrong_in_float32) for op in OPERATIONS)
    assert len(OPERATIONS) >= 12
    assert honest >= 24
    assert wrong >= 22
