"""`int` of a share of a size keeps the size open: pictures that are cut into windows."""

from __future__ import annotations

import operator
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelagent.models.compiler.capturing.capture import PolicyCannot, Smaller, capture
from kernelagent.models.compiler.capturing.whole_numbers import shares_as_variables
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.constructor_sizes import of_the_original
from kernelagent.models.compiler.module.writing import Writer
from kernelagent.models.compiler.program.calls import Call
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.models.compiler.templates.interpreted import answer


class Windows(nn.Module):
    """Cuts into windows of two by two and puts them together again, counting the batch as Swin does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        cut = x.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        cut = torch.softmax(cut, -1)
        again = int(cut.shape[0] / (h * w / 2 / 2))
        whole = cut.view(again, h // 2, w // 2, 2, 2, -1).permute(0, 1, 3, 2, 4, 5)
        return whole.reshape(again, h, w, -1)


class Kinds(nn.Module):
    """What else a forward does with the name."""

    def forward(self, x: torch.Tensor) -> tuple[object, ...]:
        same = type(x.dim()) == int, isinstance(x.dim(), int), issubclass(bool, int)  # noqa: E721
        return *same, int("7"), int("11", 2), int(2.9)


@pytest.mark.long
def test_a_batch_that_is_counted_by_division_stays_open(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, full, few = Windows(), torch.randn(6, 8, 4, 5), torch.randn(2, 8, 4, 5)
    smaller = Smaller(module, (torch.empty(few.shape, device="meta"),), {})
    captured = capture(module, (full,), {}, smaller=smaller)
    source = Writer(module, "from_reference", Choice()).write([Call("default", captured)]).source
    for x in (full, few):
        given = answer(BatchedInterpreter(), source, tmp_path, module, x)
        torch.testing.assert_close(given, module(x))


class Attended(nn.Module):
    """torch's attention that returns its weights scales its queries by `math.sqrt(1.0 / float(size))`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer, _ = self.attention(x, x, x)
        return torch.relu(answer)


@pytest.mark.long
def test_heads_that_are_executed_smaller_are_scaled_by_their_own_size(tmp_path: Path) -> None:
    torch.manual_seed(0)
    for width in (48, 16):
        module, x = Attended(width).eval(), torch.randn(7, 3, width)
        whole = Attended(48).eval()
        smaller = Smaller(Attended(16).eval(), (torch.empty(7, 3, 16, device="meta"),), {})
        captured = capture(whole, (torch.randn(7, 3, 48),), {}, smaller=smaller)
        writer = Writer(
            whole, "from_reference", Choice(), of_the_original(whole, smaller.module, "shell")
        )
        source = writer.write([Call("default", captured)]).source
        given = answer(BatchedInterpreter(), source, tmp_path, module, x)
        torch.testing.assert_close(given, module(x), rtol=1e-4, atol=1e-5)


class Numbered(nn.Module):
    """A size is made a number before a product says that it is another tensor's, too."""

    def __init__(self, width: int, of: str) -> None:
        super().__init__()
        self.of = of
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sizes = {"input": x.shape[-1], "in": self.linear.weight.shape[1]}
        scale = operator.index((sizes | {"out": self.linear.weight.shape[0]})[self.of] // 4)
        return torch.relu(self.linear(x)) * scale


@pytest.mark.parametrize("of", ["input", "in", "out"])
def test_a_number_that_was_made_of_a_size_with_two_names_is_named(of: str) -> None:
    smaller = Smaller(Numbered(16, of), (torch.empty(3, 16, device="meta"),), {})
    with pytest.raises(PolicyCannot, match="holds only where"):
        capture(Numbered(48, of), (torch.randn(3, 48),), {}, smaller=smaller)


def test_the_name_means_what_it_did_and_is_put_back() -> None:
    x = torch.zeros(2)
    expected = Kinds()(x)
    with shares_as_variables(Kinds()):
        assert "int" in globals()
        assert Kinds()(x) == expected
    assert "int" not in globals()
    with pytest.raises(ZeroDivisionError), shares_as_variables(Kinds()):
        _ = 1 / 0
    assert "int" not in globals()
