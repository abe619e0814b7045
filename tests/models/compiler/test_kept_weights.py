"""What a module's weights alone decide is computed once, and anew where a weight is another number."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelagent.models.compiler.capturing.capture import Smaller, capture
from kernelagent.models.compiler.capturing.kept_weights import KEPT
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer, Written
from kernelagent.models.compiler.policy import Past
from kernelagent.models.compiler.program.calls import Call
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests import evaluations
from tests.models.compiler.templates.interpreted import loaded
from tests.models.compiler.test_policy import policy_for, source_of


class Updated(nn.Module):
    """A weight with an update of low rank, as fine tuning leaves it."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, width))
        self.down = nn.Parameter(torch.randn(8, width))
        self.up = nn.Parameter(torch.randn(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(F.linear(x, self.weight + self.up @ self.down * 0.5))


class UnitNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.utils.parametrizations.weight_norm(nn.Linear(96, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x))


class Table(nn.Module):
    """A bias that is looked up in a table, as windows of an image have it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(49, 4))
        self.register_buffer("index", torch.randint(0, 49, (16, 16)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias = self.table[self.index.view(-1)].view(16, 16, 4).permute(2, 0, 1)
        return torch.softmax(x + bias, -1)


class Plain(nn.Module):
    """Views of weights, and little computed from them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(96, 64)
        self.scale = nn.Parameter(torch.randn(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * torch.sigmoid(self.scale) + self.linear.weight.t()[0]


class Returned(nn.Module):
    """What the caller gets, the caller may write to."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 96))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        norm = self.weight.norm(dim=1)
        return F.linear(x, self.weight) * norm, norm


class Chunked(nn.Module):
    """One half is used, the other is returned: both lie in one memory."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 96))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        used, other = torch.chunk(self.weight / self.weight.norm(dim=1, keepdim=True), 2)
        return F.linear(x, used), other


WIDE = torch.randn(20, 96)
CASES = {
    "an update of low rank": (Updated(), WIDE),
    "a norm": (UnitNorm(), WIDE),
    "a table": (Table(), torch.randn(3, 4, 16, 16)),
}


def written(module: nn.Module, x: torch.Tensor) -> Written:
    captured = capture(module.eval(), (x,), {}, kept=True)
    return Writer(module, "from_reference", Choice(sites={KEPT: True})).write(
        [Call("default", captured)]
    )


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_it_follows_every_change_of_a_weight_that_torch_counts(name: str, tmp_path: Path) -> None:
    module, x = copy.deepcopy(CASES[name][0]).eval(), CASES[name][1]
    made = written(module, x)
    assert made.sites[KEPT]
    new = loaded(BatchedInterpreter(), made.source, tmp_path, module)

    def same() -> None:
        torch.testing.assert_close(new(x), module(x), rtol=1e-4, atol=1e-4)

    with torch.no_grad():
        same()
        for parameter in module.parameters():
            parameter.mul_(1.5).add_(0.1)
        new.load_state_dict(module.state_dict())
        same()
        for path, parameter in list(new.named_parameters()):
            part, _, last = path.rpartition(".")
            setattr(new.get_submodule(part), last, nn.Parameter(parameter * 0.5))
        module.load_state_dict(new.state_dict())
        same()
        again = copy.deepcopy(new)
        for parameter in new.parameters():
            parameter.add_(1.0)
        torch.testing.assert_close(again(x), module(x), rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_it_is_computed_once(tmp_path: Path) -> None:
    module = Updated().eval()
    new = loaded(BatchedInterpreter(), written(module, WIDE).source, tmp_path, module)
    made = []
    with torch.no_grad():
        for _ in range(2):
            new(WIDE)
            made.append(vars(new)["_kept"]["all"][2][0])
    assert made[0] is made[1]


@pytest.mark.parametrize(
    "module", [Plain(), Returned(), Chunked()], ids=["little", "returned", "returned in part"]
)
def test_what_a_kernel_does_as_it_reads_a_weight_and_what_is_returned_stay(
    module: nn.Module,
) -> None:
    assert capture(module.eval(), (WIDE,), {}, kept=True).kept is None


@pytest.mark.long
def test_weights_that_are_executed_smaller_are_kept_at_any_size(tmp_path: Path) -> None:
    module, few = Updated(96).eval(), Updated(32).eval()
    smaller = Smaller(few, (torch.empty(12, 32, device="meta"),), {})
    captured = capture(module, (WIDE,), {}, smaller=smaller, kept=True)
    writer = Writer(module, "from_reference", Choice(sites={KEPT: True}))
    source = writer.write([Call("default", captured)]).source
    with torch.no_grad():
        new = loaded(BatchedInterpreter(), source, tmp_path, module)
        torch.testing.assert_close(new(WIDE), module(WIDE), rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_it_is_a_turns_hypothesis_that_says_what_it_does_not_see() -> None:
    policy = policy_for(Updated().eval(), (WIDE,))
    past: list[Past] = []
    replies = []
    while (reply := policy.reply(past)) is not None and len(past) < 60:
        past.append(Past(source_of(reply), evaluations.accepted(2.0 - 0.01 * len(past))))
        replies.append(str(reply))
    assert "_kept_of_weights" not in past[0].source
    kept = [words for words in replies if f"{KEPT} is computed once and kept" in words]
    assert kept
    assert "is not seen: one through `.data`" in kept[0]
