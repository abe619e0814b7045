"""A call whose tensors hold other values in the places of the call before: integers too, where the module takes them."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from kernelagent.tools.judge.problem.load import LoadedProblem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import named_tensors
from kernelagent.tools.judge.problem.trials.trials import rounds

pytestmark = pytest.mark.long

X, INDEX = "arguments[0][0]", "arguments[0][1]"


class Picks(torch.nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index]


class PicksTheLargest(torch.nn.Module):
    """Takes an index that goes with the other tensor, and no other one."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        if int(index[0]) != int(x[:, 0].argmax()):
            raise ValueError("the first index is that of the largest")
        return x[index]


def _drawn(seed: int) -> tuple[tuple[torch.Tensor, torch.Tensor], dict[str, object]]:
    torch.manual_seed(seed)
    x, index = torch.randn(8, 4), torch.randint(0, 8, (6,))
    index[0] = x[:, 0].argmax()
    return (x, index), {}


def _in_place(module: type[torch.nn.Module]) -> list[tuple[dict[str, torch.Tensor], ...]]:
    given = tuple(t.to("meta") for t in _drawn(0)[0]), {}
    source = InputSource("default", given, _drawn)
    problem = LoadedProblem(
        name="picks",
        source="",
        entry_point="Picks",
        constructor="init",
        build=module,
        init_args=lambda: ((), {}),
        input_sets=lambda: {"default": _drawn(0)},
    )
    oracle = Oracle(problem, "cpu", nullcontext)
    made = [
        trial
        for one in rounds(oracle, (source,), {})
        for trial in one.trials
        if trial.then is not None and trial.then.in_place
    ]
    return [(named_tensors(t.arguments), named_tensors(t.then.arguments)) for t in made if t.then]


@pytest.mark.parametrize("module", [Picks, PicksTheLargest])
def test_integers_are_others_in_their_places_where_the_module_takes_them(
    module: type[torch.nn.Module],
) -> None:
    pairs = _in_place(module)
    assert pairs
    for first, then in pairs:
        assert not torch.equal(first[X], then[X])
        if module is Picks:
            assert not torch.equal(first[INDEX], then[INDEX])
            assert int(then[INDEX].max()) < 8
