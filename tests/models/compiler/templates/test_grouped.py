"""Products that do not need one another, in one launch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelagent.models.compiler.choices import GROUPED, PRECEDES, Choice
from kernelagent.models.compiler.policy import Past
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests import evaluations
from tests.models.compiler.templates.interpreted import answer
from tests.models.compiler.templates.test_gemm import written
from tests.models.compiler.test_policy import policy_for, source_of

pytestmark = pytest.mark.long

KEY = f"{GROUPED}products 0, 1 and 2"


class Heads(nn.Module):
    """Three products of one input, of different widths, with different ends."""

    def __init__(self, wide: int = 96, narrow: int = 40) -> None:
        super().__init__()
        self.q = nn.Linear(64, wide)
        self.k = nn.Linear(64, narrow, bias=False)
        self.v = nn.Linear(64, narrow)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        key = self.k(x).view(2, 10, 2, -1).transpose(1, 2)
        return F.relu(self.q(x)), key, torch.sigmoid(self.v(x)) * 2


class Towers(nn.Module):
    """Products of different inputs, batched."""

    def __init__(self) -> None:
        super().__init__()
        self.of_a = nn.Parameter(torch.randn(3, 20, 24))
        self.of_b = nn.Parameter(torch.randn(3, 32, 40))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tanh(a @ self.of_a), torch.relu(b @ self.of_b)


class Mixed(nn.Module):
    """One of two reads rows that its own tiles scale."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 48, bias=False)
        self.second = nn.Linear(64, 24, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.first(torch.sigmoid(x)), self.second(y)


class Turned(nn.Module):
    """Both are plain products of one name, of factors that lie in other orders."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(64, 48))
        self.second = nn.Linear(64, 48, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x @ self.first, self.second(y)


class Gated(nn.Module):
    """What follows the second reads the first."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 80, bias=False)
        self.up = nn.Linear(64, 80, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.gate(x)) * self.up(x)


class InTurn(nn.Module):
    """The second writes over what the first reads."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64, bias=False)
        self.second = nn.Linear(64, 64, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.first(x)
        return y, self.second(F.softmax(y, 0))


class Reused(nn.Module):
    """Between the products a kernel writes over what the first one's ending reads."""

    def __init__(self, rows: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.rows = rows
        self.a = nn.Linear(64, 48)
        self.b = nn.Linear(48, 32)
        self.c = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = self.rows(y @ y.t() + torch.eye(48))
        first = torch.relu(self.a(x) + rows[0])
        return first, self.b(torch.softmax(rows, -1)), self.c(x)


REUSED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a buffer of the program": lambda y: torch.cumsum(y, 0),
    "what an operation of torch's made": lambda y: torch.linalg.inv_ex(y)[0],
}


@pytest.mark.parametrize("name", REUSED)
def test_what_is_overwritten_between_two_products_is_read_before(name: str, tmp_path: Path) -> None:
    module, inputs = Reused(REUSED[name]).eval(), (torch.randn(20, 64), torch.randn(48, 64))
    made = written(module, *inputs)
    got = answer(BatchedInterpreter(), made.source, tmp_path, module, *inputs)
    torch.testing.assert_close(got, module(*inputs), rtol=1e-3, atol=1e-3)


def test_heads_of_different_widths_share_one_launch(tmp_path: Path) -> None:
    module, x = Heads().eval(), torch.randn(2, 10, 64)
    made = written(module, x)
    assert made.sites[KEY]
    assert made.source.count("matmuls[") == 1
    assert "matmul_relu_tile(" in made.source
    assert "matmul_relu[" not in made.source
    got = answer(BatchedInterpreter(), made.source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x), rtol=1e-4, atol=1e-4)


def test_heads_alike_share_one_function(tmp_path: Path) -> None:
    module, x = Heads(48, 48).eval(), torch.randn(2, 10, 64)
    module.forward = lambda x: (module.q(x), module.v(x))  # type: ignore[method-assign]
    source = written(module, x).source
    assert source.count("@triton.jit") == 2, source
    got = answer(BatchedInterpreter(), source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "module",
    [Towers(), Mixed(), Turned()],
    ids=["of other inputs", "with a prologue", "in other orders"],
)
def test_what_surrounds_each_of_them_is_done_by_its_own_tiles(
    module: nn.Module, tmp_path: Path
) -> None:
    batched = isinstance(module, Towers)
    shapes = [(3, 50, 20), (3, 18, 32)] if batched else [(20, 64), (50, 64)]
    inputs = [torch.randn(shape) for shape in shapes]
    made = written(module, *inputs, choice=Choice(sites={f"{PRECEDES}product 0": True}))
    assert made.sites[f"{GROUPED}products 0 and 1"]
    assert made.source.count("[(tiles,)](") == 1
    got = answer(BatchedInterpreter(), made.source, tmp_path, module, *inputs)
    torch.testing.assert_close(got, module(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("module", [Gated(), InTurn()], ids=["reads", "follows"])
def test_products_that_need_one_another_have_a_launch_each(module: nn.Module) -> None:
    made = written(module, torch.randn(20, 64))
    assert not any(GROUPED in key for key in made.sites)


def test_large_products_that_fill_the_gpu_alone_stay_apart() -> None:
    module = nn.Module()
    module.q, module.k = nn.Linear(4096, 4096), nn.Linear(4096, 1024)
    module.forward = lambda x: (module.q(x), module.k(x))  # type: ignore[method-assign, operator]
    made = written(module, torch.empty(8192, 4096))
    assert not made.sites.get(f"{GROUPED}products 0 and 1")


def test_a_turn_gives_each_its_own_launch() -> None:
    policy = policy_for(Heads().eval(), (torch.randn(2, 10, 64),))
    past: list[Past] = []
    said = []
    while (reply := policy.reply(past)) is not None and len(past) < 60:
        past.append(Past(source_of(reply), evaluations.accepted(2.0 - 0.01 * len(past))))
        said.append(str(reply))
    assert any("products 0, 1 and 2 have a launch each" in words for words in said)
    assert any("matmuls[" not in item.source for item in past)
