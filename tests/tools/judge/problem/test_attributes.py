"""What a forward leaves besides its state is found, and put back before the next call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from kernelagent.tools.judge.problem.load import LoadedProblem
from kernelagent.tools.judge.problem.reference.attributes import GLOBAL, Attributes, left_under
from kernelagent.tools.judge.problem.reference.oracle import Oracle

SEEN: list[int] = []


class Part(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3), persistent=False)
        self.loss: torch.Tensor | None = None
        self.table = torch.ones(2)
        self.history: list[Any] = [1]
        self.name = "part"
        self.other = object()


class Whole(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Part()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.part.last.copy_(x)
        self.part.loss = x.sum()
        self.part.history.append(x)
        self.made = 3
        SEEN.append(1)
        return x


def test_what_a_call_leaves_is_named_with_its_module() -> None:
    module = Whole()
    before = Attributes.of(module)
    assert before.changed(module) == {}
    module(torch.ones(3))
    left = before.changed(module)
    assert left.keys() == {"part.last", "part.loss", "part.history", "made", GLOBAL + "SEEN"}
    assert torch.equal(left["part.last"], torch.ones(3))
    SEEN.clear()


def test_everything_is_as_before_once_it_is_restored() -> None:
    module = Whole()
    history, last = module.part.history, module.part.last
    before = Attributes.of(module)
    for _ in range(2):
        module(torch.ones(3))
        before.restore(module)
    assert before.changed(module) == {}
    assert module.part.history is history
    assert history == [1]
    assert module.part.last is last
    assert module.part.loss is None
    assert not hasattr(module, "made")
    assert SEEN == []


def test_a_table_written_in_place_gets_its_values_back() -> None:
    module = Whole()
    before = Attributes.of(module)
    module.part.table.mul_(2)
    assert before.changed(module).keys() == {"part.table"}
    before.restore(module)
    assert module.part.table.tolist() == [1.0, 1.0]


def test_objects_that_are_not_followed_stay() -> None:
    module = Whole()
    before = Attributes.of(module)
    module.part.other = 5
    before.restore(module)
    assert module.part.other == 5


@pytest.mark.parametrize("kind", [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM])
def test_weights_that_a_module_holds_in_a_list_as_well_stay_its_own(
    kind: Callable[..., torch.nn.RNNBase],
) -> None:
    module = kind(3, 4, num_layers=2)
    before = Attributes.of(module)
    for _ in range(2):
        before.restore(module)
        module(torch.ones(5, 3))[0].sum().backward()
        assert all(parameter.grad is not None for parameter in module.parameters())
        module.zero_grad()


def test_a_recurrent_reference_answers_with_the_weights_in_use() -> None:
    problem = LoadedProblem(
        "recurrent", "", "Model", "init", lambda: torch.nn.LSTM(3, 4), lambda: ((), {}), dict, None
    )
    oracle, arguments = Oracle(problem, "cpu", nullcontext), ((torch.ones(5, 3),), {})
    given = oracle.eager(arguments)[0]
    oracle.use_weights({name: -tensor for name, tensor in oracle.given_weights.items()})
    answer = oracle.expect(arguments)
    assert not torch.allclose(answer.output[0], given)
    assert torch.allclose(answer.output[0].double(), answer.output64[0], atol=1e-6)
    assert answer.left == {}


def test_a_forward_that_is_put_on_an_instance_later_stays() -> None:
    module = Whole()
    before = Attributes.of(module)
    module.part.forward = lambda x: x
    before.restore(module)
    assert "forward" in vars(module.part)


def test_copies_of_what_is_left_are_nobodys_else() -> None:
    module = Whole()
    module(torch.ones(3).requires_grad_())
    copy = left_under(module, ("part.loss",))["part.loss"]
    assert not copy.requires_grad
    assert copy is not module.part.loss
    SEEN.clear()


class _PutsAnotherPart(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = torch.nn.Sequential(torch.nn.Linear(4, 4))
        self.kind = "sparse"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "sparse":
            self.kind = "full"
            self.part = torch.nn.Sequential(self.part[0], torch.nn.Dropout(0.1))
        result: torch.Tensor = self.part.eval()(x)
        return result


def test_a_part_that_a_forward_has_put_in_anothers_place_is_taken_out_again() -> None:
    module = _PutsAnotherPart()
    first = module.part
    before = Attributes.of(module)
    for _ in range(2):
        module(torch.ones(2, 4))
        assert len(module.part) == 2
        before.restore(module)
        assert module.part is first
        assert module.kind == "sparse"
        assert "Dropout" not in repr(module)
