"""Recurrent layers: few steps are written out, and of many that have no kernel it is said at once why not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.models.compiler.policy import Policy
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.judges import verdict_on
from tests.models.compiler.templates.interpreted import answer

SHORT: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "LSTM": lambda: (nn.LSTM(8, 16, batch_first=True), (torch.randn(3, 4, 8),)),
    "LSTM of two layers both ways": lambda: (nn.LSTM(8, 16, 2, bidirectional=True), (torch.randn(3, 2, 8),)),
    "GRU with a state": lambda: (nn.GRU(8, 16), (torch.randn(3, 2, 8), torch.randn(1, 2, 16))),
    "RNN of rectified units": lambda: (nn.RNN(8, 16, nonlinearity="relu"), (torch.randn(3, 2, 8),)),
    "LSTM with projected states": lambda: (nn.LSTM(8, 16, proj_size=4), (torch.randn(3, 2, 8),)),
    "a cell": lambda: (nn.LSTMCell(8, 16), (torch.randn(3, 8),)),
}  # fmt: skip


def written(module: nn.Module, args: tuple[Any, ...]) -> str:
    return Policy(module, "from_reference", {"default": (args, {})}).first().source


@pytest.mark.long
@pytest.mark.parametrize("name", SHORT)
def test_few_steps_are_kernels_and_right(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    module, args = SHORT[name]()
    source = written(module, args)
    for word in ("lstm", "gru", "mkldnn"):
        assert f"torch.{word}" not in source
    got = answer(BatchedInterpreter(), source, tmp_path, module, *args)
    for ours, theirs in zip(tree_leaves(got), tree_leaves(module(*args)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.LSTM(8, 16, 2, proj_size=4), r"is one library call \(cuDNN's.*1024 steps"),
        (nn.GRU(8, 16, 2, dtype=torch.float64), r"is one library call \(cuDNN's.*1024 steps"),
    ],
    ids=["projected", "float64"],
)
def test_of_many_steps_without_a_kernel_it_is_said_at_once_that_they_stay_with_the_library(
    module: nn.Module, words: str
) -> None:
    began = time.process_time()
    x = torch.randn(512, 2, 8, dtype=next(module.parameters()).dtype)
    with pytest.raises(PolicyCannot, match=words):
        written(module, (x,))
    # Of the 60 that the author has, on a slow machine too.
    assert time.process_time() - began < 45


@pytest.mark.long
def test_a_short_lstm_is_accepted_by_the_judge(tmp_path: Path, fork_server: ForkServer) -> None:
    torch.manual_seed(0)
    module, args = nn.LSTM(8, 16), (torch.randn(3, 2, 8),)
    source = written(module, args)
    result = verdict_on(source, module, args, tmp_path / "bundle", fork_server)
    assert result.accepted, f"{result.reason}\n{source}"
