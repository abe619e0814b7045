from __future__ import annotations

import pytest
import torch

from benchmarks import calibrate
from benchmarks.cost_cases import OPERATIONS

pytestmark = pytest.mark.long


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_without_a_gpu_the_table_says_that_nothing_was_measured(tmp_path, capsys):
    out = tmp_path / "table.md"
    assert calibrate.main(["--programs", "16", "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert "no GPU: predicted only" in text
    assert "no GPU: predicted only" in capsys.readouterr().out
    assert "| NO |" not in text
    estimates = sum(1 + len(operation.variants) for operation in OPERATIONS)
    orderings = sum(len(operation.slower) for operation in OPERATIONS)
    assert text.count("not measured") == estimates + orderings
