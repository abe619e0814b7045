"""Products that go into sums unrounded where a launch rounds otherwise, in every floating type."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest
import torch
import triton
import triton.language as tl

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.compiled.thread_layouts import Layouts
from kernelagent.tools.virtual.executor.launch import Launch
from tests.tools.virtual.arguments import tensor_argument


@triton.jit
def rests(x_ptr, o_ptr, N: tl.constexpr, WAY: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    rounded = tl.load(x_ptr + N + at)
    square = x * x
    if WAY == "difference":
        tl.store(o_ptr + at, square - rounded)
    elif WAY == "from":
        tl.store(o_ptr + at, rounded - square)
    elif WAY == "negative":
        tl.store(o_ptr + at, -square + rounded)
    elif WAY == "from zero":
        tl.store(o_ptr + at, (0.0 - square) + rounded)
    else:
        both = square[:, None] - tl.expand_dims(rounded, 1)
        tl.store(o_ptr + at[:, None], both)


@pytest.fixture
def otherwise() -> Iterator[BatchedInterpreter]:
    interpreter = BatchedInterpreter()
    interpreter.round_as("threads", Layouts(), fuses=True)
    yield interpreter
    interpreter.round_as(None, Layouts(), fuses=False)


def launched(interpreter: BatchedInterpreter, x: torch.Tensor, way: str) -> torch.Tensor:
    out = torch.empty(x.shape[-1], dtype=x.dtype)
    named = {"x_ptr": x, "o_ptr": out, "N": x.shape[-1], "WAY": way}
    tensors = tuple(tensor_argument(name, named[name]) for name in ("x_ptr", "o_ptr"))
    interpreter.run(rests, named, Launch(0, "rests", 1, (1, 1, 1), tensors, {}, {}))
    return out


@pytest.mark.parametrize(
    "way",
    [
        "difference",
        "from",
        pytest.param(
            "negative",
            marks=pytest.mark.skipif(
                not triton_versions.NEGATES, reason="before Triton 3.8 a minus sign takes from zero"
            ),
        ),
        "widened",
    ],
)
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("dtype", "bits"),
    [(torch.float64, 53), (torch.float32, 24), (torch.float16, 11), (torch.bfloat16, 8)],
)
def test_what_rounding_a_product_left_out_is_in_the_sum(otherwise, way, together, dtype, bits):
    otherwise.most_together = 1 << 15 if together else 0
    step = 2.0 ** -(bits // 2 + 1)
    x = torch.tensor([1 + step, -1 - step, 2.0, 0.0], dtype=dtype)
    data = torch.stack([x, x * x])
    sign = -1 if way in ("from", "negative") else 1
    values, rounded = ([Fraction(v) for v in row.double().tolist()] for row in data)
    exact = [value * value for value in values]
    assert exact[0] != rounded[0]
    rest = [sign * float(one - other) for one, other in zip(exact, rounded, strict=True)]
    assert launched(otherwise, data, way).double().tolist() == rest
    otherwise.round_as(None, Layouts(), fuses=False)
    assert not launched(otherwise, data, way).any()


def test_a_product_taken_from_zero_is_rounded_before_anything_is_added(otherwise):
    # In the PTX of every Triton since 3.6: fma.rn.f32 of -x, x and 0, and an addition.
    x = torch.tensor([1 + 2.0**-13, 3.0])
    data = torch.stack([x, x * x])
    assert not launched(otherwise, data, "from zero").any()
    negative = launched(otherwise, data, "negative")
    assert negative.any() == triton_versions.NEGATES
