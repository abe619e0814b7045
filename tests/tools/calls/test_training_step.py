"""One training step: what a backward finds of what its forward saved, and in which order upstream gradients come."""

from __future__ import annotations

from itertools import pairwise

import torch

from kernelagent.tools.calls.backwards import apart_names
from kernelagent.tools.calls.training_step import GRADIENTS, TrainingStep, take

SEEN: list[tuple[str, torch.Tensor, bool]] = []


class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.given = w
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        SEEN.append(("g", g, isinstance(w, torch.nn.Parameter)))
        return g * w, (g * x).sum(0)


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(3.0))

    def forward(self, x):
        return Times.apply(x, self.w)


def step(rows, *, packed=None):
    return TrainingStep(
        training=True, parameters=(("w",),), outputs=(0,), upstream=tuple((r,) for r in rows), packed=packed
    )  # fmt: skip


def test_packed_tensors_are_others_with_the_same_numbers_and_strides():
    x = torch.randn(2, 3).t().contiguous().t()
    results = []
    for packed in (None, "alike"):
        SEEN.clear()
        results.append(take(Module(), ((x,), {}), step([torch.ones(2, 3)], packed=packed)))
        assert [own for _, _, own in SEEN] == [packed is None]
    left, right = (r[GRADIENTS]["apart"] for r in results)
    assert all(torch.equal(left[name], right[name]) for name in ("w", "input 0"))


def test_saved_tensors_come_back_dense_as_from_pinned_memory():
    class Strides(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            SEEN.append(ctx.saved_tensors[0].stride())
            return g

    class Saves(torch.nn.Module):
        def forward(self, x):
            return Strides.apply(x)

    x = torch.randn(3, 2).t()
    for packed in (None, "alike", "dense"):
        SEEN.clear()
        asked = TrainingStep(
            training=True, outputs=(0,), upstream=((torch.ones(2, 3),),), packed=packed
        )
        take(Saves(), ((x,), {}), asked)
        assert [(3, 1) if packed == "dense" else (1, 2)] == SEEN


def test_another_call_between_may_be_in_the_other_mode():
    class Flags(torch.nn.Module):
        def forward(self, x):
            SEEN.append(self.training)
            return x * 2

    x, module = torch.ones(2, 3), Flags()
    for flips in (False, True):
        SEEN.clear()
        asked = TrainingStep(
            training=False,
            outputs=(0,),
            upstream=((torch.ones(2, 3),),),
            beside=((x,), {}),
            beside_flips=flips,
        )
        take(module, ((x,), {}), asked)
        assert [False, flips] == SEEN
        assert module.training


def test_an_upstream_that_stands_beside_the_next_but_one_comes_twice_in_a_row():
    a, b, c = (torch.full((2, 3), float(n)) for n in range(3))
    rows = [*(torch.ones(2, 3) for _ in range(3)), a, b, a, c]
    SEEN.clear()
    result = take(Module(), ((torch.ones(2, 3),), {}), step(rows))
    came = [g for _, g, _ in SEEN]
    assert any(first is a and then is a for first, then in pairwise(came))
    assert set(apart_names(len(rows))) < set(result[GRADIENTS])


def test_gradients_of_complex_inputs_and_parameters_are_asked_for():
    class Filter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([1 + 2j, 3 - 1j]))

        def forward(self, z):
            return (z * self.w).real

    step_of = TrainingStep(
        training=True, parameters=(("w",),), outputs=(0,), upstream=((torch.ones(2),),)
    )
    z = torch.tensor([2 - 1j, 1j])
    gradients = take(Filter(), ((z,), {}), step_of)[GRADIENTS]["apart"]
    assert torch.equal(gradients["input 0"], torch.tensor([1 - 2j, 3 + 1j]))
    assert torch.equal(gradients["w"], z.conj())
