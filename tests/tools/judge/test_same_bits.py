"""Whether a run has changed a tensor, told by its bits."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.oracle import same_bits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn, torch.int8], ids=str)
def test_a_tensor_has_the_bits_of_itself_and_of_its_copy_and_of_no_other(
    dtype: torch.dtype,
) -> None:
    x = torch.arange(1, 9).to(dtype)
    assert same_bits(x, x)
    assert same_bits(x, x.clone())
    assert not same_bits(x, torch.arange(8, 0, -1).to(dtype))
