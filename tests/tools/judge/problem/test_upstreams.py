"""Upstream gradients with structure: what they are, and what a step that takes them must leave alone."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch

from kernelagent.tools.calls.backwards import ACCUMULATED, APART, FIRST, apart_names
from kernelagent.tools.calls.training_step import GRADIENTS, TrainingStep, take
from kernelagent.tools.judge.problem.reference.expected import Expected
from kernelagent.tools.judge.problem.steps.upstreams import (
    KINDS,
    Output,
    laid_out,
    layouts_of,
    size_of,
    structured,
    turns,
)
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.diagnosis.gradients import require_gradients
from kernelagent.tools.judge.verify.rejection import Rejected

SHAPES = ((), (1,), (7,), (3, 5), (2, 3, 4), (0, 4))


def output(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Output:
    result = torch.randn(shape).to(dtype)
    return Output(result, torch.randn(shape), (torch.randn(shape).to(dtype),))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", KINDS)
def test_a_kind_fits_the_output_and_is_finite(name: str, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(1)
    for shape in SHAPES:
        row = structured(name, [output(shape, dtype)], draw)
        if row is None:
            continue
        (made,) = row
        assert made is not None
        assert (made.shape, made.dtype) == (torch.Size(shape), dtype)
        assert made.isfinite().all()
        assert size_of(row) > 0


def test_every_kind_comes_around() -> None:
    assert set(islice(turns(), 3 * len(KINDS))) == set(KINDS)


def test_one_of_several_outputs_is_sometimes_left_out() -> None:
    draw = torch.Generator().manual_seed(1)
    rows = [structured("ones", [output((3, 5)), output((3,))], draw) for _ in range(40)]
    left_out = [row for row in rows if row is not None and None in row]
    assert 0 < len(left_out) < len(rows)


def test_ones_are_expanded_as_a_sum_sends_them() -> None:
    draw = torch.Generator().manual_seed(1)
    rows = [structured("ones", [output((3, 5))], draw) for _ in range(20)]
    strides = {row[0].stride() for row in rows if row is not None and row[0] is not None}
    assert (0, 0) in strides
    assert len(strides) > 1


def test_results_that_are_infinite_send_nothing() -> None:
    masked = Output(torch.full((2, 3), -torch.inf), torch.randn(2, 3), ())
    assert structured("result", [masked], torch.Generator()) is None


class Two(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * x, x + 3 * y


def step(*rows: Any, **how: Any) -> TrainingStep:
    return TrainingStep(training=True, outputs=(0, 1), upstream=rows, watched=True, **how)


def test_further_backwards_are_apart_and_leave_what_accumulates() -> None:
    x, y = torch.randn(4), torch.randn(4)
    rows = [(torch.randn(4), torch.randn(4)) for _ in range(6)]
    found = take(Two(), ((x, y), {}), step(*rows))[GRADIENTS]
    assert list(found) == [FIRST, APART, *apart_names(6), ACCUMULATED]
    for name, row in zip((FIRST, APART, *apart_names(6)), (*rows[:2], *rows[3:]), strict=True):
        torch.testing.assert_close(found[name]["input 1"], 3 * row[1])
    torch.testing.assert_close(found[ACCUMULATED]["input 1"], 3 * (rows[0][1] + rows[2][1]))


def test_what_an_output_without_a_gradient_leaves_is_zero() -> None:
    found = take(Two(), ((torch.randn(4), torch.randn(4)), {}), step((torch.ones(4), None)))
    assert not found[GRADIENTS][APART]["input 1"].any()


def test_an_input_that_is_left_out_has_no_gradient_and_keeps_its_number() -> None:
    rows = (torch.ones(4), torch.ones(4))
    found = take(Two(), ((torch.randn(4), torch.randn(4)), {}), step(rows, left_out=(0,)))
    assert found[GRADIENTS][APART].keys() == {"input 1"}


class Overwriting(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        return x + y

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        made = upstream.clone()
        upstream.zero_()
        return made, made.clone()


class InOneMemory(Overwriting):
    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        made = upstream.clone()
        return made.view(2, 2), made.view(2, 2)


class Apart(Overwriting):
    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        return upstream, upstream


def judged(function: Any) -> None:
    """Raises `Rejected` as a verdict does."""

    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return function.apply(x, y) if function else x + y

    x, y = torch.randn(2, 2), torch.randn(2, 2)
    upstream = tuple((torch.randn(2, 2),) for _ in range(3))

    def asked() -> TrainingStep:
        rows = tuple((row[0].clone(),) for row in upstream)
        return TrainingStep(training=True, outputs=(0,), upstream=rows, watched=True)

    class Reference(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return x + y

    given: Any = ((x, y), {})
    expected = take(Reference(), given, asked())
    trial = Trial(
        "default",
        "natural",
        given,
        Expected(expected, expected, given, {}, {}),
        compare.Expected(expected, expected, {}),
        reference=lambda _: expected,
    )
    require_gradients(trial, take(Sum(), given, asked()))


@pytest.mark.parametrize(
    ("function", "code"), [(Overwriting, "input_mutated"), (InOneMemory, "output_aliased")]
)
def test_what_belongs_to_the_graph_or_to_another_gradient_is_left_alone(
    function: Any, code: str
) -> None:
    with pytest.raises(Rejected) as refused:
        judged(function)
    assert refused.value.reason.code == code


@pytest.mark.parametrize("function", [None, Apart])
def test_one_gradient_for_two_inputs_is_as_in_torch(function: Any) -> None:
    judged(function)


def test_upstreams_of_a_complex_output_have_both_parts_and_some_one_alone():
    draw = torch.Generator().manual_seed(3)
    result, drawn = (torch.randn(6, 8, dtype=torch.complex64) for _ in range(2))
    seen = set()
    for name in list(islice(turns(), 60)):
        row = structured(name, [Output(result, drawn, (result,))], draw)
        if row is None:
            continue
        (made,) = row
        assert made is not None
        assert made.dtype == torch.complex64
        seen.add((bool(made.real.any()), bool(made.imag.any())))
    assert {(True, True), (True, False), (False, True)} <= seen


@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 4, 6)])
def test_each_layout_of_an_upstream_gradient_has_its_values_and_is_not_dense(
    shape: tuple[int, ...],
) -> None:
    values = torch.randn(shape)
    layouts = layouts_of(values)
    assert len(layouts) == {1: 1, 2: 3, 3: 4}[len(shape)]
    for layout in layouts:
        made = laid_out(values, layout)
        assert torch.equal(made, values)
        assert not made.is_contiguous()
    assert layouts_of(torch.randn(())) == []
