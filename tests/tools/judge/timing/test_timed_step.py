"""A timed call in mode `train` is a forward with its backward, the same one that is judged."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelagent.tools.calls.backwards import APART
from kernelagent.tools.calls.training_step import GRADIENTS, TrainingStep, take
from kernelagent.tools.candidate_runner.repeat import Repeated
from kernelagent.tools.cuda.chain import digest, pair_at, picked


def step() -> TrainingStep:
    return TrainingStep(
        training=True,
        parameters=(("weight",), ("bias",)),
        outputs=(0,),
        upstream=((torch.randn(4, 3),),),
    )


def draws() -> list[Any]:
    return [((torch.randn(4, 8),), {}) for _ in range(3)]


def test_a_prepared_call_leaves_the_gradients_of_a_judged_step() -> None:
    module, asked, sets = torch.nn.Linear(8, 3), step(), draws()
    wanted = take(module, sets[0], asked)
    repeated = Repeated(module, "cpu")
    repeated.prepare(sets, asked, module)
    got = repeated.call_once(*sets[0])
    assert wanted[GRADIENTS][APART].keys() == {"weight", "bias", "input 0"}
    for name, gradient in wanted[GRADIENTS][APART].items():
        assert torch.equal(got[GRADIENTS][APART][name], gradient)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_each_call_of_a_chain_depends_on_the_gradients_before_it() -> None:
    module, asked, sets = torch.nn.Linear(8, 3), step(), draws()
    repeated = Repeated(module, "cpu")
    repeated.prepare(sets, asked, module)
    digests = repeated.chain(3, 7, empty=False)
    state = torch.tensor(7)
    for at in range(3):
        state = digest(take(module, picked(*pair_at(sets, at), state), asked))
        assert state == digests[at]


@pytest.mark.long
def test_what_torch_compile_made_of_a_module_is_timed_with_its_parameters() -> None:
    module, asked, sets = torch.nn.Linear(8, 3), step(), draws()
    compiled = torch.compile(module, backend="aot_eager")
    repeated = Repeated(compiled, "cpu")
    repeated.prepare(sets, asked, module)
    got = repeated.call_once(*sets[0])[GRADIENTS][APART]
    wanted = take(module, sets[0], asked)[GRADIENTS][APART]
    torch.testing.assert_close(got, wanted)
