"""Operations on data that change nothing are noted, in whatever form; those that others have a reason for are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelagent.tools.judge.verify.beyond.untried_choices import UntriedChoices
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.executor.launch import Launch
from kernelagent.tools.virtual.kernel_text.choices import Choices
from tests.tools.virtual import effect_kernels as kernels
from tests.tools.virtual.arguments import tensor_argument

BLOCK = 16
X = torch.tensor([float(k) - 20.5 for k in range(2 * BLOCK)])
ZEROS = torch.zeros(2 * BLOCK)
SOME = torch.ones(2 * BLOCK) * (torch.arange(2 * BLOCK) % 3)


@pytest.fixture(scope="module", params=["together", "one by one"])
def interpreter(request: pytest.FixtureRequest) -> BatchedInterpreter:
    return (
        BatchedInterpreter() if request.param == "together" else BatchedInterpreter(most_together=0)
    )


def told(
    interpreter: BatchedInterpreter,
    kernel: Any,
    *arguments: Any,
    grid: int = 1,
    explained: tuple[float, ...] = (),
) -> str:
    """What is told of one launch."""
    named = dict(zip(kernel.arg_names, (*arguments, BLOCK), strict=True))
    tensors = {n: v for n, v in named.items() if isinstance(v, torch.Tensor)}
    launch = Launch(
        index=0,
        kernel=kernel.fn.__name__,
        line=1,
        grid=(grid, 1, 1),
        tensors=tuple(tensor_argument(name, value) for name, value in tensors.items()),
        scalars={},
        constexprs={"BLOCK": BLOCK},
    )
    choices = Choices()
    interpreter.note_choices(choices)
    interpreter.run(kernel, named, launch)
    interpreter.note_choices(None)
    untried = UntriedChoices()
    untried.note([{"choices": [[*choice, ways] for choice, ways in choices.seen.items()]}])
    return untried.sentence(explained) or ""


@pytest.mark.parametrize(
    "what",
    [
        "`zero + 1.0` equals `1.0`",
        "`x * (zero + 1.0)` equals `x`",
        "`y - zero` equals `y`",
        "`tl.maximum(y, zero - 1000000.0)` equals `y`",
        "`tl.where(y > 2.0 + zero, y + zero * 3.0, y)` equals `y`",
        "`tl.fma(zero, x, y)` equals `y`",
        "`out_ptr + at + zero.to(tl.int32)` equals `out_ptr + at`",
    ],
)
def test_every_way_in_which_a_rare_number_could_come_in_is_told(
    interpreter: BatchedInterpreter, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelagent.tools.judge.verify.beyond.untried_choices._SHOWN", 20)
    out = torch.empty(2 * BLOCK)
    assert what in told(interpreter, kernels.each_merge, X, ZEROS, out, grid=2)


def test_nothing_is_told_where_the_number_came(interpreter: BatchedInterpreter) -> None:
    out = torch.empty(4 * BLOCK)
    sentence = told(interpreter, kernels.each_merge, X, SOME, out, grid=2)
    assert sentence.count("equals") == 1
    assert "`tl.maximum(y, zero - 1000000.0)` equals `y`" in sentence


def test_sums_that_begin_at_nothing_and_bounds_of_indices_are_as_they_should_be(
    interpreter: BatchedInterpreter,
) -> None:
    ids = torch.arange(BLOCK, dtype=torch.int64)
    out = torch.empty(BLOCK)
    sentence = told(interpreter, kernels.sums_and_bounds, X[-BLOCK:], ids, out, 2 * BLOCK)
    assert sentence == ""


def test_a_bound_of_the_references_own_is_no_choice(interpreter: BatchedInterpreter) -> None:
    out = torch.empty(BLOCK)
    sentence = told(interpreter, kernels.never_above, X, out)
    assert "`tl.clamp(x, -50.0, 50.0)` equals `x`" in sentence
    assert told(interpreter, kernels.never_above, X, out, explained=(50.0,)) == ""
    assert told(interpreter, kernels.never_above, X * 9, out) == ""


def test_numbers_of_sixteen_bits_are_compared_as_numbers(interpreter: BatchedInterpreter) -> None:
    out = torch.empty(BLOCK, dtype=torch.bfloat16)
    low = -X[:BLOCK].abs().bfloat16() - 60
    assert "equals `-50.0`" in told(interpreter, kernels.never_above, low, out)


def test_a_function_is_judged_by_what_it_is_called_with(interpreter: BatchedInterpreter) -> None:
    out = torch.empty(BLOCK)
    assert told(interpreter, kernels.without_data, X, out) == ""
    sentence = told(interpreter, kernels.in_a_function, X, ZEROS, out)
    assert "`one * times + other` (called at " in sentence
    assert "equals `one * times`" in sentence
    assert sentence.count("equals") == 1


def test_rounds_and_atomics_of_zero_are_told(interpreter: BatchedInterpreter) -> None:
    out = torch.zeros(BLOCK)
    sentence = told(interpreter, kernels.rare_rounds, X, ZEROS, out)
    assert "`tl.load(zero_ptr).to(tl.int32)` is false" in sentence
    assert "`tl.load(zero_ptr + at)` is false" in sentence
    assert told(interpreter, kernels.rare_rounds, X, ZEROS + 1, out) == ""


def test_functions_of_triton_that_leave_a_number_as_it_is_are_told_whatever_they_are(
    interpreter: BatchedInterpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelagent.tools.judge.verify.beyond.untried_choices._SHOWN", 20)
    out = torch.empty(BLOCK)
    sentence = told(interpreter, kernels.by_functions, X[:BLOCK], ZEROS[:BLOCK], out)
    assert "`tl.add(x, zero)` equals `x`" in sentence
    assert (
        "libdevice.copysign(y, libdevice.fdim(x, zero - 3000000000.0)… equals `y`"
        in sentence.replace("`lib", "lib").replace("…`", "…")
    )
    assert "tl.reshape" not in sentence
    assert "tl.atomic_cas" in sentence


def test_functions_that_changed_a_number_are_not_told(interpreter: BatchedInterpreter) -> None:
    out = torch.empty(BLOCK)
    sentence = told(interpreter, kernels.by_functions, X[:BLOCK], SOME[:BLOCK], out)
    assert "tl.add" not in sentence
