"""What `ModelNew` takes besides what it was verified with is right, or raises: used by itself, nothing guards it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from torch import nn
from torch.utils._sympy.functions import FloorDiv

from kernelagent.models.compiler.capturing.capture import Smaller, capture
from kernelagent.models.compiler.capturing.symbols import as_counted
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.fixed_arguments import Fixed, fixed_arguments, refusal_lines
from kernelagent.models.compiler.module.writing import Writer
from kernelagent.models.compiler.program.calls import Call
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.models.compiler.templates.interpreted import answer, loaded


@pytest.fixture(scope="module")
def interpreter() -> BatchedInterpreter:
    return BatchedInterpreter()


def open_source(module: nn.Module, x: torch.Tensor, small: nn.Module, *shape: int) -> str:
    """The file for `x` that holds for a smaller module and an input of this shape, too."""
    fewer = Smaller(small, (torch.empty(shape, device="meta"),), {})
    captured = capture(module, (x,), {}, smaller=fewer)
    return Writer(module, "from_reference", Choice()).write([Call("default", captured)]).source


class Normed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(x), -1)


class Softmax(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) * 2


class Moments(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.var_mean(x, dim=(1, 2))


class Causal(nn.Module):
    """Hides what comes later by a table, in heads of a number of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.tril(torch.ones(64, 64)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        x = torch.relu(x.view(batch, tokens, 4, width // 4))
        return x.sum(-1) * self.table[:tokens, :tokens].sum(-1)[None, :, None]


@pytest.mark.long
def test_an_input_of_another_width_than_the_weight_s_is_refused(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module = Normed(48)
    source = open_source(module, torch.randn(8, 48), Normed(32), 8, 32)
    new = loaded(interpreter, source, tmp_path, module)
    for width in (47, 49):
        with pytest.raises(ValueError, match="x must be"):
            new(torch.randn(8, width))
    with pytest.raises(ValueError, match="x must be"):
        new(torch.randn(48))


@pytest.mark.long
def test_rows_longer_than_those_it_was_written_for_are_held_whole(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module = Softmax()
    source = open_source(module, torch.randn(4, 60), module, 4, 40)
    for width in (60, 40, 64, 65, 700):
        x = torch.randn(4, width)
        torch.testing.assert_close(answer(interpreter, source, tmp_path, module, x), module(x))


@pytest.mark.long
def test_rows_of_fewer_values_than_parts_have_moments(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module = Moments()
    source = open_source(module, torch.empty(2, 960, 1000), module, 2, 64, 200)
    assert source.count("@triton.jit") > 1, "rows are split into parts"
    for shape in ((2, 13, 10), (2, 15, 5), (2, 1, 3)):
        x = torch.randn(shape) + 3
        got = answer(interpreter, source, tmp_path, module, x)
        torch.testing.assert_close(got, module(x))


@pytest.mark.long
def test_more_elements_than_the_kernels_count_are_refused(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module = Softmax()
    source = open_source(module, torch.randn(64, 128), module, 32, 128)
    new = loaded(interpreter, source, tmp_path, module)
    with pytest.raises(ValueError, match="2147483648 elements is too large"):
        new(torch.empty(1 << 24, 128, device="meta"))


def test_elements_of_a_halved_picture_are_counted_as_a_product() -> None:
    s = sympy.Symbol("s", integer=True, positive=True)
    t = sympy.Symbol("t", integer=True, positive=True)
    wide, high = FloorDiv(s - 1, 2), FloorDiv(t - 1, 2)
    product = sympy.Mul(64, wide + 1, high + 1)
    assert as_counted(sympy.expand(product) - 64, 2**31 - 1 - 64) == (
        sympy.factor(product),
        2**31 - 1,
    )
    assert as_counted(s, 64) == (s, 64)
    assert as_counted(s * t, 64) == (s * t, 64)


@pytest.mark.long
def test_what_the_forward_took_for_granted_of_a_size_is_asked(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module = Causal()
    source = open_source(module, torch.randn(2, 40, 48), module, 2, 24, 32)
    new = loaded(interpreter, source, tmp_path, module)
    x = torch.randn(2, 64, 64)
    torch.testing.assert_close(new(x), module(x))
    with pytest.raises(ValueError, match="may be 64 at most"):
        new(torch.randn(2, 65, 64))
    with pytest.raises(ValueError, match="must be a multiple of 4"):
        new(torch.randn(2, 64, 66))


@pytest.mark.long
def test_weights_in_another_memory_format_are_refused(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    module, x = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), torch.randn(2, 3, 9, 9)
    source = open_source(module, x, module, 1, 3, 9, 9)
    new = loaded(interpreter, source, tmp_path, module)
    torch.testing.assert_close(new(x), module(x), rtol=1e-2, atol=1e-2)
    with pytest.raises(ValueError, match="a weight is not contiguous"):
        new.to(memory_format=torch.channels_last)(x)


@pytest.mark.parametrize(("part", "refused"), [(nn.Dropout(0.1), True), (nn.Dropout(0.0), False)])
def test_training_mode_is_refused_where_it_would_mean_something(
    interpreter: BatchedInterpreter, tmp_path: Path, part: nn.Module, refused: bool
) -> None:
    module, x = nn.Sequential(nn.GELU(), part).eval(), torch.randn(4, 32)
    captured = capture(module, (x,), {})
    source = Writer(module, "from_reference", Choice()).write([Call("default", captured)]).source
    new = loaded(interpreter, source, tmp_path, module)
    torch.testing.assert_close(new(x), module(x))
    new.train()
    if refused:
        with pytest.raises(ValueError, match="eval mode"):
            new(x)
    else:
        torch.testing.assert_close(new(x), module(x))


class Built(nn.Module):
    def __init__(
        self, width: int, hidden: int, bias_shape: Any, scale: float = 2.0, mode: str = "up"
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, 3))


FULL: Any = (64, 64, (64, 1)), {}
SMALL: Any = (32, 32, (32, 1)), {}


def test_arguments_that_decide_no_size_must_be_what_they_were() -> None:
    fixed = fixed_arguments(Built, FULL, SMALL, {"weight": ("width", "3")})
    assert fixed == [
        Fixed("hidden", "width"),
        Fixed("bias_shape[0]", "width"),
        Fixed("bias_shape[1]", "1"),
        Fixed("scale", "2.0"),
        Fixed("mode", "'up'"),
    ]
    lines = "\n".join(f"    {line}" for line in refusal_lines(fixed))
    scope: dict[str, Any] = {}
    exec(f"def made(width, hidden, bias_shape, scale=2.0, mode='up'):\n{lines}", scope)
    scope["made"](32, 32, [32, 1])
    for other in ((64, 32, (64, 1)), (64, 64, (64, 1), 3.0), (64, 64, (64, 1), 2.0, 'do"wn')):
        with pytest.raises(ValueError, match="made for hidden=width"):
            scope["made"](*other)


def test_where_one_size_alone_was_seen_every_argument_is_fixed() -> None:
    fixed = fixed_arguments(Built, FULL, FULL, {})
    assert [f.argument for f in fixed] == ["width", "hidden", "tuple(bias_shape)", "scale", "mode"]
