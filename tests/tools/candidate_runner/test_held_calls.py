"""What has become of the arguments of an earlier call."""

from __future__ import annotations

import torch

from kernelagent.tools.candidate_runner.held_calls import Held, can_take, copied


def test_what_a_call_put_into_a_container_is_looked_at_later():
    kept = torch.ones(3)
    arguments = (({"mean": kept},), {})
    held = Held(None, arguments, copied(arguments), mutated=True)
    assert held.inputs_kept
    kept.add_(1)
    assert not held.inputs_kept


def test_a_parameter_in_a_container_is_as_the_call_left_it():
    arguments = (({"mean": torch.nn.Parameter(torch.ones(3))},), {})
    assert Held(None, arguments, copied(arguments), mutated=True).inputs_kept


def test_an_entry_that_is_added_later_is_seen():
    state: dict[str, torch.Tensor] = {}
    held = Held(None, ((state,), {}), copied(((state,), {})), mutated=False)
    state["more"] = torch.ones(1)
    assert not held.inputs_kept


def test_parameters_that_a_call_was_given_are_none_of_the_next_ones():
    def held(tensor: torch.Tensor) -> Held:
        arguments = ((tensor,), {})
        return Held(None, arguments, copied(arguments), mutated=False)

    fresh = ((torch.ones(3),), {})
    assert can_take(held(torch.ones(3)), fresh)
    assert not can_take(held(torch.nn.Parameter(torch.ones(3))), fresh)
