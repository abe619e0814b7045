"""Sizes that the policy's programs leave open: which, and that the judge accepts them at others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.models.compiler.capturing.capture import PolicyCannot, Smaller
from kernelagent.models.compiler.capturing.open_sizes import at_other_sizes, first_axes
from kernelagent.models.compiler.policy import Policy
from kernelagent.tools.judge.problem.bundle import save_bundle
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.judges import open_judge
from tests.models.compiler.test_policy import Attention, Of, source_of


class Masked(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = x @ x.transpose(1, 2) + mask
        return torch.softmax(scores, -1) @ x


class OfAnEvenNumber(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) if x.shape[0] % 2 == 0 else torch.tanh(x)


class Added(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b


class Multiplied(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


X = torch.randn(6, 12, 16)


@pytest.mark.parametrize(
    ("module", "args", "expected"),
    [
        pytest.param(nn.Linear(16, 4), (X[0],), [((0, 0),)], id="rows, not features"),
        pytest.param(nn.Linear(16, 4), (X,), [((0, 0),), ((0, 1),)], id="batch and length"),
        pytest.param(nn.Conv1d(12, 3, 3), (X,), [((0, 0),)], id="a batch, not channels"),
        pytest.param(Added(), (X[0], X[1]), [((0, 0), (1, 0))], id="two that are added"),
        pytest.param(
            Multiplied(),
            (torch.randn(8, 8), torch.randn(8, 8)),
            [((0, 0),)],
            id="the rows of a product of two squares",
        ),
        pytest.param(
            Masked(),
            (X, torch.zeros(6, 12, 12)),
            [((0, 0), (1, 0)), ((0, 1), (1, 1), (1, 2))],
            id="both axes of a mask with the length",
        ),
        pytest.param(nn.Flatten(0), (X,), [((0, 0),), ((0, 1),)], id="what is flattened"),
        pytest.param(nn.ReLU(), (X[:1, 0],), [], id="a batch of one"),
    ],
)
def test_the_first_axes_are_open_with_what_changes_along(
    module: nn.Module, args: tuple[Any, ...], expected: list[Any]
) -> None:
    assert first_axes(module, args, {}) == expected


def test_an_open_size_is_another_one_at_all_its_places() -> None:
    args = (X, torch.zeros(6, 12, 12))
    other = at_other_sizes(Smaller(Masked(), args, {}), [((0, 1), (1, 1), (1, 2))])
    assert [tuple(tensor.shape) for tensor in other.args] == [(6, 13, 16), (6, 13, 13)]
    assert other.grows


@pytest.mark.long
def test_a_forward_that_decides_by_its_size_is_written_for_the_given_one() -> None:
    policy = Policy(OfAnEvenNumber(), "from_reference", {"default": ((X[0, :8],), {})})
    source = source_of(policy.reply([]))
    assert '_contiguous("x", x, (8, 16)' in source
    declared = Policy(
        OfAnEvenNumber(),
        "from_reference",
        {"default": ((X[0, :8],), {})},
        dynamic={"default": [((0, 0),)]},
    )
    with pytest.raises(PolicyCannot, match="holds only where"):
        declared.reply([])


@pytest.mark.long
def test_several_input_sets_are_told_apart_by_the_sizes_that_are_fixed() -> None:
    sets: dict[str, Any] = {"wide": ((X[0],), {}), "narrow": ((X[0, :9].T,), {})}
    source = source_of(Policy(nn.SiLU(), "from_reference", sets).reply([]))
    scope: dict[str, Any] = {}
    start, end = source.index("    def forward"), source.index("    def _wide")
    exec("class Chosen:\n" + source[start:end], scope)
    named = {"_wide": lambda self, x: "wide", "_narrow": lambda self, x: "narrow"}
    chosen = type("Named", (scope["Chosen"],), named)()
    assert chosen.forward(X[0]) == chosen.forward(X[0, :5]) == "wide"
    assert chosen.forward(X[0, :9].T) == chosen.forward(torch.randn(5, 9)) == "narrow"
    with pytest.raises(ValueError, match="not compiled for"):
        chosen.forward(X[0, :, :3])
    assert "(1, input_size_0)" in source


@pytest.mark.long
def test_a_part_of_a_larger_tensor_is_taken_at_its_own_sizes() -> None:
    sets: dict[str, Any] = {"default": ((X[0, :, :9],), {})}
    source = source_of(Policy(nn.SiLU(), "from_reference", sets).reply([]))
    assert '_as_it_lies("input", input, (12, 9), torch.float32, (16, 1))' in source


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "args", "declared"),
    [
        pytest.param(
            Of(lambda m, x: x / x.norm(dim=0, keepdim=True)),
            (X[0],),
            "0",
            id="rows that are held",
        ),
        pytest.param(nn.LayerNorm(16), (X,), "1", id="a norm", marks=pytest.mark.long),
        pytest.param(
            nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU()),
            (torch.randn(2, 3, 9, 8),),
            "0",
            id="a convolution",
            marks=pytest.mark.long,
        ),
        pytest.param(
            nn.Sequential(nn.Linear(16, 24), nn.GELU()),
            (X[0],),
            "0",
            id="a product",
            marks=pytest.mark.long,
        ),
        pytest.param(
            Attention(masked=False),
            (torch.randn(2, 12, 64),),
            "1",
            id="an attention",
            marks=pytest.mark.long,
        ),
        pytest.param(
            Masked(),
            (X, torch.zeros(6, 12, 12)),
            "x:1=mask:1=mask:2",
            id="scores with a mask",
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_judge_accepts_what_is_written_for_a_declared_size(
    tmp_path: Path, fork_server: ForkServer, module: nn.Module, args: tuple[Any, ...], declared: str
) -> None:
    save_bundle(tmp_path / "bundle", module.eval(), args)
    settings = JudgeSettings(
        ProblemSpec(bundle=str(tmp_path / "bundle")), device="virtual", dynamic=(declared,)
    )
    with open_judge(settings, fork_server) as judge:
        places = [size.places for size in judge.facts.dynamic_sizes]
        policy = Policy(
            module, "from_reference", {"default": (args, {})}, dynamic={"default": places}
        )
        source = source_of(policy.reply([]))
        result = judge.evaluate(source, "turn", lambda _: None)
    assert result.accepted, f"{result.reason}\n{source}"
    assert "dynamic_sizes" in {item.code for item in result.disclosures}
