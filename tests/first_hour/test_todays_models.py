"""Constructors, inputs and forwards as today's models have them."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType

import pytest
import torch
from torch import nn

from kernelagent.domain.problem import ProblemSpec
from kernelagent.models.compiler.capturing.capture import capture
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.writing import Writer
from kernelagent.models.compiler.program.calls import Call
from kernelagent.tools.calls.tensors import open_parcel, parcel
from kernelagent.tools.candidate_runner import shell
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda

WITH_CONFIG = """
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GPTConfig:
    width: int = 16
    eps: float = 1e-5
    dtype: torch.dtype = torch.float32


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.norm = nn.LayerNorm(config.width, eps=config.eps)

    def forward(self, x, mask=None):
        x = self.norm(x)
        return x if mask is None else x * mask


def get_init_inputs():
    return [GPTConfig()]


def get_inputs():
    return {"x": torch.randn(4, 16), "mask": torch.ones(4, 1)}
"""


@pytest.fixture
def block(tmp_path: Path) -> ProblemSpec:
    path = tmp_path / "gpt.py"
    path.write_text(WITH_CONFIG, encoding="utf-8")
    return ProblemSpec(path=str(path))


def test_dynamo_may_be_imported_under_the_pretended_device() -> None:
    # Dynamo refuses one function under two names, and transformers imports it.
    with pretending_cuda("sm_90"):
        answers = [v for v in vars(torch.cuda).values() if _is_ours(v)]
    assert len(answers) > 20
    assert len({id(value) for value in answers}) == len(answers)


def _is_ours(value: object) -> bool:
    return isinstance(value, FunctionType) and "fake_cuda" in value.__code__.co_filename


def test_a_constructor_may_take_a_config_object(block: ProblemSpec) -> None:
    problem = load_problem(block)
    assert problem.constructor == "from_reference"
    sent = parcel(shell.describe(problem.build()))
    received = open_parcel(sent.header, memoryview(b"".join(sent.payload)))
    made = shell.shell_from(received)
    config = made.config
    assert (config.width, config.eps, config.dtype) == (16, 1e-5, torch.float32)
    assert made.norm.weight.shape == (16,)


def test_a_dict_of_forwards_own_arguments_is_one_call(block: ProblemSpec) -> None:
    ((args, kwargs),) = load_problem(block).input_sets().values()
    assert args == ()
    assert set(kwargs) == {"x", "mask"}


def test_a_dict_of_lists_names_input_sets(block: ProblemSpec, tmp_path: Path) -> None:
    text = WITH_CONFIG.replace(
        '{"x": torch.randn(4, 16), "mask": torch.ones(4, 1)}',
        '{"x": [torch.randn(4, 16)], "mask": [torch.randn(2, 16)]}',
    )
    (tmp_path / "gpt.py").write_text(text, encoding="utf-8")
    assert set(load_problem(block).input_sets()) == {"x", "mask"}


class LastToken(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)[:, [-1], :] * 2


class EveryOther(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x[:, :, [0, 2, 1]]) + torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.long
@pytest.mark.parametrize("kind", [LastToken, EveryOther])
def test_a_forward_may_index_by_a_list_and_make_its_own_constants(kind: type[nn.Module]) -> None:
    module, x = kind().eval(), torch.randn(4, 6, 8)
    written = Writer(module, "init", Choice()).write([Call("default", capture(module, [x], {}))])
    compile(written.source, "candidate", "exec")
    assert "class ModelNew" in written.source
    assert ("torch.tensor(" in written.source) == (kind is EveryOther)
