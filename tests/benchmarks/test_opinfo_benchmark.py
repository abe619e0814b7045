"""PyTorch's own operations as problems and as candidates: a sample, in every form."""

from __future__ import annotations

import random

import pytest
import torch

from benchmarks.opinfo import judged
from benchmarks.opinfo_subjects import Form

pytestmark = pytest.mark.long

_SAMPLE = 12
_KNOWN = {"linalg.eig"}
"""Refuses its own backward, except under a mode of torch's, as the reference is called."""


@pytest.fixture(autouse=True)
def settings_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's samples, once imported, forbid all of the process to set `torch.backends.cudnn` by hand; other tests do."""
    monkeypatch.setattr(torch.backends, "disable_global_flags", lambda: None)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_operation_of_torch_is_refused(
    dtype: torch.dtype, train: bool, draw: random.Random
) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    names = sorted({op.name for op in op_db} - _KNOWN)
    rows = list(judged(Form(dtype, train), only=draw.sample(names, _SAMPLE)))
    wrong = [row for row in rows if row.outcome in ("refused", "error")]
    assert not wrong
    assert any(row.outcome == "accepted" for row in rows)
