"""Small faults planted into honest kernels are caught; every one that is not is on a list with a reason."""

from __future__ import annotations

import pytest

from benchmarks.faults import EACH, EQUIVALENT, KERNELS, faults, judged


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_kernel_has_twenty_different_faults(kernel):
    planted = [fault for fault in faults(kernel) if fault.equivalent is None]
    assert len({fault.source for fault in planted}) == EACH


def test_every_declared_equivalence_is_a_fault_that_is_planted():
    declared = {(f.kernel, f.after) for name in KERNELS for f in faults(name) if f.equivalent}
    assert declared == set(EQUIVALENT)


@pytest.mark.long
@pytest.mark.parametrize("kernel", ["layer_norm", "in_place"])
def test_every_fifth_fault_is_caught(kernel, judges):
    planted = [fault for fault in faults(kernel) if fault.equivalent is None][::5]
    assert [v.fault.after for v in judged(kernel, planted, judges) if v.code is None] == []


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_at_least_98_percent_of_all_faults_are_caught(judges):
    planted = {name: [f for f in faults(name) if f.equivalent is None] for name in KERNELS}
    verdicts = [v for name, some in planted.items() for v in judged(name, some, judges)]
    missed = [(v.fault.kernel, v.fault.after) for v in verdicts if v.code is None]
    assert len(missed) <= 0.02 * len(verdicts), missed
