"""What `from_reference` is given: a module without its forward."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from kernelagent.tools.candidate_runner.shell import Shell, describe, shell_from


@pytest.fixture
def shell() -> Shell:
    module = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.GELU(approximate="tanh"))
    return shell_from(describe(module))


def test_classes_have_the_names_of_the_modules(shell: Shell):
    assert [type(part).__name__ for part in shell.modules()] == [
        "Sequential",
        "Linear",
        "GELU",
        "GELU",
    ]
    assert isinstance(shell[1], Shell)
    assert type(shell[1]) is type(shell[2])
    assert shell[2].approximate == "tanh"
    with pytest.raises(RuntimeError, match="the shell of a GELU"):
        shell[1](torch.zeros(3))


def test_it_can_be_copied_and_pickled(shell: Shell):
    saved = io.BytesIO()
    torch.save(shell, saved)
    saved.seek(0)
    for again in (
        copy.deepcopy(shell),
        pickle.loads(pickle.dumps(shell)),
        torch.load(saved, weights_only=False),
    ):
        assert [type(part).__name__ for part in again.modules()] == [
            type(p).__name__ for p in shell.modules()
        ]
        assert torch.equal(again[0].weight, shell[0].weight)
        assert again[0].weight is not shell[0].weight
        assert again[2].approximate == "tanh"
