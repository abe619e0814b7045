"""What precedes a product, done by the product's own tiles: casts, scales, activations, norms of rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelagent.models.compiler.capturing.capture import Smaller, capture
from kernelagent.models.compiler.choices import PRECEDES, Choice
from kernelagent.models.compiler.module.writing import Writer, Written
from kernelagent.models.compiler.policy import Past
from kernelagent.models.compiler.program.calls import Call
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests import evaluations
from tests.models.compiler.templates.interpreted import answer
from tests.models.compiler.test_policy import policy_for, source_of

pytestmark = pytest.mark.long

INSIDE = {f"{PRECEDES}product {number}": True for number in range(2)}
APART = dict.fromkeys(INSIDE, False)


class Of(nn.Module):
    """A function of two tensors and of parameters."""

    def __init__(self, function: Callable[..., Any], *parameters: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.own = nn.ParameterList(parameters)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        return self.function(a, b, *self.own)


class Normed(nn.Module):
    def __init__(self, norm: nn.Module, out: int, then: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.norm = norm
        self.linear = nn.Linear(320, out)
        self.then = then
        nn.init.normal_(norm.weight)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor) -> Any:
        y = self.linear(self.norm(x))
        return y if self.then is None else self.then(y)


class PostNorm(nn.Module):
    """The norm is written over the sum that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(320, 320)
        self.norm = nn.LayerNorm(320)
        self.second = nn.Linear(320, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(self.norm(x + F.gelu(self.first(x))))
        return y


class PreNorm(nn.Module):
    """The sum that is normed is returned as well."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(320))
        self.linear = nn.Linear(320, 40, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + y
        scale = torch.rsqrt(total.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return total, self.linear((total.float() * scale).to(x.dtype) * self.weight)


def written(
    module: nn.Module, *args: Any, sites: dict[str, bool], smaller: Smaller | None = None
) -> Written:
    call = Call("default", capture(module, args, {}, smaller=smaller))
    return Writer(module, "from_reference", Choice(sites=sites)).write([call])


def kernels(source: str) -> int:
    return source.count("@triton.jit")


A, B = torch.randn(40, 70), torch.randn(70, 48)
TILES: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "a cast of both": (Of(lambda a, b: a.half() @ b.half()), (A, B)),
    "an activation, and one behind": (Of(lambda a, b: torch.relu(F.gelu(a) @ b)), (A, B)),
    "infinite where nothing is": (Of(lambda a, b: (1 / a) @ b), (A + 9, B)),
    "one where nothing is": (Of(lambda a, b: torch.exp(a) @ b), (A, B)),
    "a factor and a term by column": (Of(lambda a, b, w: (a * w + w) @ b, torch.randn(70)), (A, B)),
    "a factor by row": (Of(lambda a, b, w: (a * w[:, None]) @ b, torch.randn(40)), (A, B)),
    "weights in another type": (
        Of(lambda a, _, w: F.linear(a, w.half()), torch.randn(48, 70)),
        (A.half(), B),
    ),
    "quantised weights": (
        Of(lambda a, b, w: F.linear(a, b.float() * w[:, None]), torch.randn(48)),
        (A, torch.randint(-9, 9, (48, 70), dtype=torch.int8)),
    ),
    "a batch": (
        Of(lambda a, b: torch.bmm(torch.tanh(a), b * 0.3 + 1)),
        (torch.randn(3, 40, 70), torch.randn(3, 70, 48)),
    ),
    "a transposed factor": (Of(lambda a, b: torch.exp(a).T @ b), (B, B)),
    "a column": (Of(lambda a, b: torch.exp(a) @ b), (A, B[:, :1].contiguous())),
    "a row": (Of(lambda a, b: torch.exp(a) @ b), (A[:1].contiguous(), B)),
    "rows that are all alike": (
        Of(lambda a, b, v: torch.exp(v).expand(40, 70).contiguous() @ b, torch.randn(70)),
        (A, B),
    ),
    "columns that are all alike": (
        Of(lambda a, b: a @ (b[:, :1] * 2).expand(70, 48).contiguous()),
        (A, B),
    ),
    "padding that is not zero": (
        Of(lambda a, b: F.pad(a, (0, 5), value=1.0) @ F.pad(b, (0, 0, 0, 5), value=2.0)),
        (A, B),
    ),
    "parts that are added up": (
        Of(lambda a, b: torch.sigmoid(a) @ b),
        (torch.randn(16, 8192), torch.randn(8192, 16)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TILES)
def test_what_precedes_a_product_is_done_in_its_tiles(name: str, tmp_path: Path) -> None:
    module, args = TILES[name]
    inside, apart = (written(module, *args, sites=sites).source for sites in (INSIDE, APART))
    assert kernels(inside) < kernels(apart)
    expected = module(*args)
    got = answer(BatchedInterpreter(), inside, tmp_path, module, *args)
    assert got.dtype == expected.dtype
    few = 3e-3 if expected.dtype == torch.float16 else 1e-5
    torch.testing.assert_close(got, expected, rtol=few, atol=few * float(expected.abs().max()))


NORMS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "layer norm": (Normed(nn.LayerNorm(320), 40, torch.relu), (torch.randn(4, 12, 320),)),
    "RMS norm": (Normed(nn.RMSNorm(320), 40), (torch.randn(4, 12, 320),)),
    "in half precision": (
        Normed(nn.LayerNorm(320), 40).half(),
        (torch.randn(4, 12, 320).half(),),
    ),
    "of a sum that is returned": (
        PreNorm().half(),
        (torch.randn(4, 12, 320).half(), torch.randn(4, 12, 320).half()),
    ),
    "written over what it reads": (PostNorm(), (torch.randn(4, 12, 320),)),
    "softmax": (
        Of(lambda a, b: torch.softmax(a, -1) @ b),
        (torch.randn(40, 300), torch.randn(300, 24)),
    ),
    "softmax in a batch": (
        Of(lambda a, b: torch.softmax(a, -1) @ b),
        (torch.randn(3, 40, 300), torch.randn(3, 300, 24)),
    ),
    "rows of length one": (
        Of(lambda a, b: F.normalize(a, dim=-1) @ b),
        (torch.randn(40, 300), torch.randn(300, 24)),
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_normed_rows_are_never_stored(name: str, tmp_path: Path) -> None:
    module, args = NORMS[name]
    inside = written(module, *args, sites=INSIDE)
    assert "_statistics" in inside.source
    assert any(inside.sites[key] for key in INSIDE if key in inside.sites)
    assert "_statistics" not in written(module, *args, sites=APART).source
    with torch.no_grad():
        expected = module(*args)
    got = answer(BatchedInterpreter(), inside.source, tmp_path, module, *args)
    for mine, theirs in zip(tensors_of(got), tensors_of(expected), strict=True):
        few = 5e-3 if theirs.dtype == torch.float16 else 1e-5
        torch.testing.assert_close(mine, theirs, rtol=few, atol=few)


def test_a_norm_of_any_number_of_rows_is_done_in_the_tiles(tmp_path: Path) -> None:
    module = Normed(nn.LayerNorm(320), 40)
    fewer = Smaller(module, (torch.randn(3, 7, 320),), {})
    source = written(module, torch.randn(4, 12, 320), sites=INSIDE, smaller=fewer).source
    for x in (torch.randn(2, 5, 320), torch.randn(1, 33, 320)):
        with torch.no_grad():
            expected = module(x)
        got = answer(BatchedInterpreter(), source, tmp_path, module, x)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


CHANGED_IN_BETWEEN: dict[str, Callable[..., Any]] = {
    "an activation": lambda a, b: _changed_later(a, b),
    "a norm": lambda a, b: _normed_and_changed(a, b),
}


def _normed_and_changed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.softmax(a, -1)
    a.copy_((a @ b) @ b.T)
    return y @ b


@pytest.mark.parametrize("name", CHANGED_IN_BETWEEN)
def test_what_lies_otherwise_and_is_changed_is_read_before(name: str, tmp_path: Path) -> None:
    """Of a transposed input of any size it is not known where it lies."""
    module, b = Of(CHANGED_IN_BETWEEN[name]), torch.randn(320, 16)
    a = (torch.randn(320, 80) * 0.1).T
    fewer = Smaller(module, (torch.randn(320, 40).T, b), {})
    source = written(module, a, b, sites=INSIDE, smaller=fewer).source
    expected = module(a.clone(), b)
    got = answer(BatchedInterpreter(), source, tmp_path, module, a.clone(), b)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


STORED: dict[str, Callable[..., Any]] = {
    "it is returned as well": lambda a, b: (torch.exp(a) @ b, torch.exp(a)),
    "another product reads it": lambda a, b: (torch.exp(a) @ b, torch.exp(a) @ b[:, :16]),
    "both factors are the same": lambda a, b: torch.exp(a[:40, :40]) @ torch.exp(a[:40, :40]),
    "the same launch changes its input": lambda a, b: _then_changed(a, b),
    "another launch changes its input": lambda a, b: _changed_later(a, b),
    "the product is written over what it reads": lambda a, b: _written_over(a, b),
}


def _then_changed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.exp(a)
    a.mul_(2)
    return y @ b


def _changed_later(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.exp(a)
    a.copy_((a @ b) @ b.T)
    return y @ b


def _written_over(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The compiler reuses the memory of the first product for the last."""
    y = a.T @ a
    z = y @ y
    return torch.exp(y.roll(1, 1) / 40) @ z


@pytest.mark.parametrize("name", STORED)
def test_what_others_read_is_stored(name: str, tmp_path: Path) -> None:
    module = Of(STORED[name])
    made = written(module, A, B, sites=INSIDE)
    expected = module(A.clone(), B)
    got = answer(BatchedInterpreter(), made.source, tmp_path, module, A.clone(), B)
    for mine, theirs in zip(tensors_of(got), tensors_of(expected), strict=True):
        size = float(theirs.abs().max())
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5 * size)
    assert not any(made.sites.get(key, False) for key in INSIDE)


class NormedBetween(nn.Module):
    """What is normed is read once more, and its memory is then the last product's."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(320, 320)
        self.norm = nn.LayerNorm(320)
        self.second = nn.Linear(320, 320, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.first(x)
        return self.second(self.norm(y)), y.mean(0)


WHOLE_ROWS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "the product is written over what is normed": (NormedBetween(), (torch.randn(320, 320),)),
    "whether any element of a row is large": (
        Of(lambda a, b: (a / a.abs().sum(-1, keepdim=True) * (a > 2).any(-1, keepdim=True)) @ b),
        (torch.randn(40, 320), torch.randn(320, 24)),
    ),
    "where a row's largest element is": (
        Of(lambda a, b: (a / a.abs().sum(-1, keepdim=True) * a.argmax(-1, keepdim=True)) @ b),
        (torch.randn(40, 320), torch.randn(320, 24)),
    ),
}


@pytest.mark.parametrize("name", WHOLE_ROWS)
def test_rows_that_cannot_be_normed_in_a_tile_are_stored(name: str, tmp_path: Path) -> None:
    module, args = WHOLE_ROWS[name]
    source = written(module, *args, sites=INSIDE).source
    assert "_statistics" not in source
    with torch.no_grad():
        expected = module(*args)
    got = answer(BatchedInterpreter(), source, tmp_path, module, *args)
    for mine, theirs in zip(tensors_of(got), tensors_of(expected), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_what_was_addressed_in_64_bits_still_is() -> None:
    # Never touched, so it takes no memory.
    a = torch.empty(70000, 40960, dtype=torch.int8)
    b = torch.empty(40, 16)
    made = written(Of(lambda a, b: torch.exp(a[:, ::1024].float()) @ b), a, b, sites=INSIDE)
    assert made.sites[f"{PRECEDES}product 0"]
    assert ".to(tl.int64)[:, None]" in made.source


def test_what_ends_a_product_stays_its_end() -> None:
    """Between two products it is the first one's: nothing is computed twice then."""
    module = Of(lambda a, b: F.gelu(a @ b) @ b.T)
    made = written(module, A, B, sites={})
    assert kernels(made.source) == 2
    assert not any(PRECEDES in key for key in made.sites)


def test_a_turn_leaves_it_to_a_kernel_of_its_own() -> None:
    policy = policy_for(Of(lambda a, b: torch.exp(a) @ b), (A, B))
    history: list[Past] = []
    words = []
    while (reply := policy.reply(history)) is not None and len(history) < 30:
        words.append(reply.split("\n")[0])
        history.append(Past(source_of(reply), evaluations.accepted(2.0 - 0.01 * len(history))))
    assert any("a kernel of its own does what precedes product 0" in line for line in words)
