"""The library call over a part of a live model: captured, judged, tried in the whole, handed back."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import kernelagent

pytestmark = pytest.mark.long


class _Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(256))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = _Norm()
        self.proj = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(self.norm(x)) + x


def test_a_part_of_a_live_model_is_optimized_on_what_it_gets_and_tried_in_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO, "kernelagent")
    model = nn.Sequential(_Block(), _Block()).eval()
    result = kernelagent.optimize(
        model, torch.randn(16, 256), submodule="1.norm", device="virtual", turns=1
    )
    assert result.path is not None, result.why
    assert "turn 0: accepted" in caplog.text
    assert result.whole is not None
    assert result.whole.right
    assert result.whole.paths == ("1.norm",)
    assert "estimate" in repr(result)
    assert str(result.report) in repr(result)
    assert "whole model: the whole model's answer stayed right" in repr(result)
    assert len(repr(result)) < 800
    # The live model stays as it is until the user puts the part into it.
    assert type(model[1].norm) is _Norm
    x = torch.randn(16, 256)
    with torch.no_grad():
        before = model(x)
    model.set_submodule("1.norm", result.module)
    with torch.no_grad(), pytest.warns(UserWarning, match="outside what was verified"):
        assert torch.equal(model(x), before)
    assert "**In the whole model:**" in result.report.read_text(encoding="utf-8")

    again = result.report.read_text(encoding="utf-8")
    command = next(line for line in again.splitlines() if line.startswith("$ kernelagent recheck"))
    words = [sys.executable, "-m", *command.removeprefix("$ ").split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.partition(":")[0]) == (0, "it holds"), done.stderr
