"""The interval of a ratio, and what a candidate's launch costs the host."""

from __future__ import annotations

import math

import pytest

from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.estimates.ratios import kind_of, ratio
from kernelagent.tools.virtual.cost.ceilings import ceilings_for


def test_a_ratio_has_an_interval_as_wide_on_both_sides() -> None:
    result = ratio(30.0, 20.0, "dram")
    assert result is not None
    assert result.value == pytest.approx(1.5)
    assert math.log(result.high / result.value) == pytest.approx(
        math.log(result.value / result.low)
    )
    assert 1.0 < result.high / result.value < 2.0


def test_the_widest_of_what_binds_either_side_counts() -> None:
    kinds = [ratio(1.0, 1.0, bound) for bound in ("dram", "dot", "launch")]
    widest = max(result.spread for result in kinds if result is not None)
    both = ratio(1.0, 1.0, "dram", "dot", "launch")
    assert both is not None
    assert both.spread == pytest.approx(widest)


def test_a_forward_that_takes_no_time_has_no_ratio() -> None:
    assert ratio(1.0, 0.0, "dram") is None


@pytest.mark.parametrize(
    ("bound", "kind"), [("l2", "dram"), ("special", "math"), ("launch", "launch")]
)
def test_every_bound_has_a_class(bound: str, kind: str) -> None:
    assert kind_of(bound) == kind


@pytest.mark.parametrize("gpu", ["h100", "a100", "l40s", "b200", "a10g", "t4"])
def test_a_launch_of_a_candidate_costs_more_than_one_of_inductors(gpu: str) -> None:
    library = library_for(ceilings_for(gpu))
    extra = library.triton_launch_us - library.host["compiled_call_us"]
    assert 0 < extra < 10
