from __future__ import annotations

import pytest

from benchmarks.estimator_bias import CASES, measure

pytestmark = pytest.mark.long

GROUPS = 3000


@pytest.mark.parametrize("case", CASES[1:2] + CASES[3:], ids=lambda case: case.name)
def test_grpo_shrinks_the_gradient_as_its_equation_says_and_trloo_does_not(case):
    rows = measure(case, GROUPS, seed=7)
    # Seeded; 1.5 half-widths of 99 % are four standard errors.
    assert [r for r in rows if abs(r.factor - r.expected) > 1.5 * r.half_width] == []
    biased = [r for r in rows if r.estimator != "TRLOO" and r.unbiased]
    assert biased == []
