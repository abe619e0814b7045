"""A module that counts is called from as after very many forwards."""

from __future__ import annotations

from contextlib import nullcontext
from textwrap import dedent

import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.counted_on import counted_on
from kernelagent.tools.judge.problem.reference.met_numbers import met_numbers
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.far_rounds import far_rounds
from kernelagent.tools.judge.problem.trials.inputs import InputSource, on_meta

MODULE = """\
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            {buffers}
        def forward(self, x):
            {forward}

    def get_inputs():
        return [torch.randn(4)]
    def get_init_inputs():
        return []
"""
AT = 'self.register_buffer("at", torch.zeros((), dtype=torch.{}))'
RING = "; ".join((AT.format("int64"), 'self.register_buffer("keys", torch.zeros(20, 4))'))
WRITE = "self.keys.index_copy_(0, (self.at {}).reshape(1), x.reshape(1, -1)); "


def reference(tmp_path, buffers, forward):
    file = tmp_path / "problem.py"
    file.write_text(dedent(MODULE).format(buffers=buffers, forward=forward))
    return Oracle(load_problem(ProblemSpec(path=str(file))), "cpu", nullcontext)


def states(oracle, numbers=()):
    drawn = [((torch.ones(4),), {}), ((torch.full((4,), 2.0),), {})]
    return [*counted_on(oracle, oracle.given_weights, drawn, numbers)]


def test_a_counter_comes_near_the_ends_of_narrower_numbers_and_to_numbers_of_the_sources(tmp_path):
    oracle = reference(tmp_path, AT.format("int64"), "self.at.add_(3); return x * self.at")
    found = {int(s.weights["at"]) for s in states(oracle, [12345])}
    for edge in (256, 1000, 12345, 1 << 16, 1 << 24, 1 << 31):
        assert any(edge - 9 <= value < edge for value in found), edge
    assert all(value % 3 == 0 for value in found)
    assert int(oracle.weights["at"]) == 0


def test_a_counter_stays_within_its_type_with_room_for_the_calls(tmp_path):
    for kind, end in (("int32", 1 << 31), ("float32", 1 << 24), ("uint8", 256)):
        oracle = reference(tmp_path, AT.format(kind), "self.at.add_(1); return x + self.at")
        for state in states(oracle):
            oracle.use_weights(state.weights)
            begun = state.weights["at"].double()
            assert 3 <= float(begun) < end - 4
            assert oracle.state_after(((torch.ones(4),), {}))["at"].double() == begun + 1


def test_a_ring_is_called_before_it_turns_and_full_once_it_has(tmp_path):
    forward = WRITE.format("% 20") + "self.at.add_(1); return x + self.keys.sum()"
    found = {s.forwards: s.weights for s in states(reference(tmp_path, RING, forward))}
    before, after = found[18], found[21]
    assert int(before["at"]) == 18
    assert int((before["keys"] == 0).all(-1).sum()) > 10
    assert int(after["at"]) == 21
    assert not bool((after["keys"] == 0).any())


def test_a_position_that_begins_again_is_followed_over_its_end_and_no_further(tmp_path):
    forward = WRITE.format("") + "self.at.add_(1).remainder_(20); return x + self.keys.sum()"
    found = states(reference(tmp_path, RING, forward))
    assert {int(s.weights["at"]) for s in found} == {1, 18}


def test_a_cache_is_not_called_beyond_its_end_which_it_refuses(tmp_path):
    forward = WRITE.format("") + "self.at.add_(1); return x + self.keys.sum()"
    found = states(reference(tmp_path, RING, forward))
    assert [s.forwards for s in found] == [18]


def test_what_is_no_counter_is_left_alone(tmp_path):
    for forward in ("return x", "self.at.fill_(7); return x", "self.at.mul_(2).add_(1); return x"):
        assert states(reference(tmp_path, AT.format("int64"), forward)) == []


def test_a_period_that_is_computed_is_met_as_the_reference_runs(tmp_path):
    forward = (
        "self.at.add_(1); return torch.where(self.at % (90 * x.shape[0]) == 0, x, x * self.at)"
    )
    oracle = reference(tmp_path, AT.format("int64"), forward)
    met = met_numbers(oracle, ((torch.ones(4),), {}))
    assert 360 in met
    assert {int(s.weights["at"]) for s in states(oracle)} & {357, 358, 359}


def test_what_counts_in_training_alone_is_counted_on_there(tmp_path):
    forward = "self.at.add_(3 if self.training else 0); return x * self.at"
    oracle = reference(tmp_path, AT.format("int64"), forward)
    source = InputSource(
        "default",
        on_meta(((torch.ones(4),), {})),
        lambda _: ((torch.ones(4),), {}),
        constant=True,
    )

    def trials(training):
        drawn = far_rounds(oracle, (source,), most=3, training=training)
        return [trial for item in drawn for trial in item.trials]

    assert not trials(training=False)
    found = trials(training=True)
    assert found
    for trial in found:
        while trial is not None:
            assert trial.step is not None
            assert trial.step.training
            assert int(trial.expected.state["at"]) > 200
            trial = trial.then
