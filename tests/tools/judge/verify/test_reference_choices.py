"""Conditions of the reference's own text that came out one way in every judged call are told with their line."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.verify.beyond.reference_choices import (
    ReferenceChoices,
    file_of_forward,
)

PROBLEM = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        if (x != x).any():
            raise ValueError("NaN")
        return torch.where(x > 4, x - 1, x)


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return []
"""


def reference(folder: Path, text: str = PROBLEM) -> Oracle:
    path = folder / "problem.py"
    path.write_text(text)
    return Oracle(load_problem(ProblemSpec(path=str(path))), "cpu", nullcontext)


def sentence_after(oracle: Oracle, *inputs: torch.Tensor) -> str | None:
    choices = ReferenceChoices()
    for x in inputs:
        choices.note(oracle, ((x,), {}))
    return choices.sentence()


def test_a_choice_that_no_judged_call_met_is_told_with_its_line(tmp_path: Path) -> None:
    told = sentence_after(reference(tmp_path), torch.zeros(4, 8), torch.ones(4, 8))
    assert told is not None
    assert "line 8 `x > 4` is false" in told
    assert "x != x" not in told


def test_of_one_that_came_out_both_ways_nothing_is_told(tmp_path: Path) -> None:
    oracle = reference(tmp_path, PROBLEM.replace("if (x != x).any()", "if x.dim() > 3"))
    inputs = [torch.zeros(4, 8)] * 6 + [torch.full((4, 8), 5.0)]
    assert sentence_after(oracle, *inputs) is None


def test_inputs_that_the_reference_refuses_tell_nothing(tmp_path: Path) -> None:
    assert sentence_after(reference(tmp_path), torch.full((4, 8), float("nan"))) is None


@pytest.mark.parametrize("how", ["@torch.no_grad()", "@functools.lru_cache"])
def test_a_decorated_forward_is_followed_in_its_own_text(tmp_path: Path, how: str) -> None:
    text = PROBLEM.replace("import torch\n", "import functools\n\nimport torch\n", 1)
    text = text.replace("    def forward", f"    {how}\n    def forward")
    told = sentence_after(reference(tmp_path, text), torch.zeros(4, 8))
    assert told is not None
    assert "`x > 4` is false" in told
    assert "func(" not in told


def test_a_forward_that_is_torchs_is_not_followed(tmp_path: Path) -> None:
    text = PROBLEM.replace("torch.nn.Module", "torch.nn.Sequential")
    text = (
        text[: text.index("    def forward")]
        + "    pass\n"
        + text[text.index("\n\ndef get_inputs") :]
    )
    assert sentence_after(reference(tmp_path, text), torch.zeros(4, 8)) is None


def test_a_scripted_module_is_not_followed() -> None:
    module = torch.jit.script(torch.nn.ReLU())
    assert file_of_forward(module) is None
