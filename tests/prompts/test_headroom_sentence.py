"""The sentence about headroom, for modules so small that only the launch counts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.domain.evaluation import HeadroomFacts
from kernelagent.prompts.feedback import headroom_sentence
from kernelagent.tools.judge.bounds.headroom import Headroom, facts_of, headroom_of
from kernelagent.tools.virtual.cost.ceilings import ceilings_for

H200 = ceilings_for("sm_90")


def tiny() -> Headroom:
    return headroom_of(torch.nn.ReLU(), [torch.empty(8, device="meta")], {}, H200)


@given(st.floats(1e-3, 1e7), st.booleans())
def test_every_time_has_a_sentence(time_us: float, estimated: bool) -> None:
    facts = facts_of("default", tiny(), time_us, H200, estimated=estimated, source="measured")
    assert headroom_sentence(facts).startswith("Headroom: ")
    assert 0 <= facts.left <= 1


@pytest.mark.parametrize("left", [0.9999, 1.0])
def test_where_all_but_everything_is_left_no_number_is_made_up(left: float) -> None:
    facts = HeadroomFacts("default", 64, {}, 0.0, "dram", 0.0, left)
    assert "more than 1000× more is possible" in headroom_sentence(facts)


def test_a_measured_tiny_module_is_bound_by_its_launch() -> None:
    facts = facts_of("default", tiny(), 9.0, H200, estimated=False, source="measured")
    assert facts.binds == "launch"
    assert facts.least_us == H200.launch_us
    assert "launch-bound" in headroom_sentence(facts)
    assert "at most 2.3× more is possible" in headroom_sentence(facts)


def test_a_time_below_the_assumed_launch_leaves_nothing_to_gain() -> None:
    facts = facts_of("default", tiny(), 2.5, H200, estimated=False, source="measured")
    assert facts.left == 0
    assert "next to nothing is left to gain" in headroom_sentence(facts)


def test_a_large_module_is_bound_by_what_it_moves_as_before() -> None:
    x = torch.empty(1 << 28, device="meta")
    result = headroom_of(torch.nn.ReLU(), [x], {}, H200)
    facts = facts_of("default", result, 1000.0, H200, estimated=False)
    assert facts.binds == "dram"
    assert facts.least_us == round(result.bound_us, 3)
