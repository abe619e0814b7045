from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import is_parametrized

from kernelagent.tools.judge.problem.bundle import load_bundle, save_bundle

SOURCE = """
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import is_parametrized


@dataclass
class Sizes:
    width: int = 4


class Scaled(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.gain = torch.nn.Parameter(torch.ones(sizes.width))

    def forward(self, x):
        return x * self.gain * 2
"""


def test_a_class_of_a_file_loaded_by_its_path_travels_with_its_code(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("loaded_by_its_path", path)
    assert spec is not None
    assert spec.loader is not None
    own = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = own
    spec.loader.exec_module(own)
    x = torch.randn(2, 4)
    try:
        save_bundle(tmp_path / "bundle", own.Scaled(own.Sizes()), (x,))
    finally:
        # As in the judge's process, which finds no module of this name.
        del sys.modules[spec.name]
    problem = load_bundle(tmp_path / "bundle")
    torch.testing.assert_close(problem.build()(x), x * 2)
    assert problem.entry_point == "Scaled"


def test_a_parametrized_module_comes_back_with_its_weights_and_its_parametrization(
    tmp_path: Path,
) -> None:
    inner = weight_norm(nn.Linear(8, 8))
    module = nn.Sequential(inner, nn.LayerNorm(8))
    x = torch.randn(2, 8)
    save_bundle(tmp_path, module, (x,))
    again = load_bundle(tmp_path).build()
    assert again.state_dict().keys() == module.state_dict().keys()
    assert torch.equal(again(x), module(x))
    assert is_parametrized(again[0], "weight")
    with torch.no_grad():
        again[0].parametrizations.weight.original0.mul_(2)
    assert torch.allclose(again[0].weight, 2 * inner.weight)
