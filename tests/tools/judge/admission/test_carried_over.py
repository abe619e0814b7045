"""A module whose own hooks do a part of its work is refused: in the emitted module they would do it twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import Remark
from kernelagent.tools.judge.admission.carried_over import carried_over
from kernelagent.tools.judge.problem.load import LoadedProblem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import input_sources


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * self.weight


class Halving(Scaled):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return super().__call__(x) * 0.5


class Counting(Scaled):
    """Counts its calls in a hook: a part of its state that a kernel would count once more."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_forward_pre_hook(counts)


class Passing(Scaled):
    """Has a `__call__` that does nothing to the answer."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)


def counts(module: nn.Module, args: Any) -> None:
    module.calls += 1


def doubled(*given: Any) -> Any:
    return given[2] * 2.0


def shifted(module: nn.Module, args: Any) -> Any:
    return (args[0] - 0.5,)


def halved(module: nn.Module, grad_in: Any, grad_out: Any) -> Any:
    return tuple(None if g is None else g * 0.5 for g in grad_in)


def hooked(register: Callable[[nn.Module], Any], module: nn.Module | None = None) -> nn.Module:
    module = module or Scaled()
    register(module)
    return module


def told(make: Callable[[], nn.Module], *, trains: bool = False) -> tuple[Remark, ...]:
    problem = LoadedProblem(
        name="toy",
        source="",
        entry_point="Model",
        constructor="init",
        build=make,
        init_args=lambda: ((), {}),
        input_sets=lambda: {"default": ((torch.randn(4, 8),), {})},
    )
    oracle = Oracle(problem, "cpu", scope=nullcontext)
    sources = input_sources(problem, oracle.module, "cpu", nullcontext, may_shrink=False)
    return carried_over(oracle, sources, trains=trains)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda: hooked(lambda m: m.register_forward_hook(doubled)), "a forward hook"),
        (lambda: hooked(lambda m: m.register_forward_pre_hook(shifted)), "a forward pre-hook"),
        (Halving, "the `__call__`"),
        (Counting, "a forward pre-hook"),
    ],
    ids=["hook", "pre-hook", "call", "state"],
)
def test_what_would_be_done_twice_around_the_kernels_is_refused(
    module: Callable[[], nn.Module], words: str
) -> None:
    with pytest.raises(ProblemError, match=f"{words} of this .* done twice"):
        told(module)


@pytest.mark.parametrize(
    "module",
    [
        Scaled,
        Passing,
        lambda: hooked(lambda m: m.register_forward_hook(lambda *_: None)),
        lambda: torch.nn.utils.weight_norm(nn.Linear(8, 8)),
        lambda: torch.nn.utils.spectral_norm(nn.Linear(8, 8)).eval(),
        lambda: torch.nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)),
    ],
    ids=["none", "passing call", "watching", "weight norm", "spectral norm", "parametrization"],
)
def test_what_changes_nothing_when_it_runs_around_the_kernels_is_taken(
    module: Callable[[], nn.Module],
) -> None:
    assert told(module) == ()


def test_a_hook_that_changes_gradients_is_refused_where_they_are_verified() -> None:
    def make() -> nn.Module:
        return hooked(lambda m: m.register_full_backward_hook(halved))

    assert told(make) == ()
    with pytest.raises(ProblemError, match="a backward hook"):
        told(make, trains=True)


def test_a_hook_on_a_parameter_is_refused_where_it_changes_the_gradient() -> None:
    def with_hook(hook: Callable[[Any], Any]) -> Callable[[], nn.Module]:
        return lambda: hooked(lambda m: m.weight.register_hook(hook))

    slowly = with_hook(lambda gradient: gradient * 0.1)
    assert told(slowly) == ()
    assert told(with_hook(lambda gradient: None), trains=True) == ()
    with pytest.raises(ProblemError, match="the parameter weight changes its gradient"):
        told(slowly, trains=True)


def test_a_forward_of_the_instance_is_refused() -> None:
    with pytest.raises(ProblemError, match="set on the instance"):
        told(lambda: hooked(lambda m: setattr(m, "forward", torch.relu)))


def test_a_hook_on_a_part_is_told_to_keep_the_kernels_away() -> None:
    (remark,) = told(lambda: nn.Sequential(torch.nn.utils.weight_norm(nn.Linear(8, 8))))
    assert remark.code == "original_answers"
    assert "a forward pre-hook on 0" in remark.message
