"""The user's module where an emitted file is tried on it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_data
from kernelagent.tools.candidate_runner.put_on import NotReadHere, Original
from kernelagent.tools.judge.problem.bundle import save_bundle

_AS_IT_IS = {"arguments": None, "unsaved": {}}


def test_small_parameters_of_a_file_begin_where_a_gpu_would_have_them(tmp_path: Path) -> None:
    module = nn.PReLU(dtype=torch.bfloat16)
    module.other = nn.Parameter(torch.tensor([0.5], dtype=torch.bfloat16))
    save_bundle(tmp_path / "bundle", module, (torch.randn(8, 16),))
    problem = to_data(ProblemSpec(bundle=str(tmp_path / "bundle")))
    made = Original(problem, []).made(_AS_IT_IS, "cpu", training=False)
    assert {t.data_ptr() % 16 for t in made.parameters()} == {0}
    assert {n: float(t) for n, t in made.named_parameters()} == {"weight": 0.25, "other": 0.5}


def test_a_module_that_cannot_be_made_there_is_no_fault_of_the_candidates(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        raise OSError('no such file')\n\n\ndef get_inputs():\n    return [torch.ones(2)]\n",
        encoding="utf-8",
    )
    original = Original(to_data(ProblemSpec(path=str(path))), [])
    with pytest.raises(NotReadHere, match="no such file"):
        original.made(_AS_IT_IS, "cpu", training=False)
