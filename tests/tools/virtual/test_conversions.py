"""torch's conversions to integers on the virtual device: what does not fit ends where it does on a GPU."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.virtual.fake_cuda import pretending_cuda

GIVEN = [0.5, -7.9, 2147483520.0, 2147483648.0, 3e9, -3e9, 1e38, -torch.inf, torch.inf, torch.nan]
AS_INT32 = [0, -7, 2147483520, *[2147483647] * 2, -2147483648, 2147483647, -2147483648, 2147483647]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.to(torch.int32),
        lambda x: x.int(),
        lambda x: x.type(torch.int32),
        lambda x: torch.empty(len(x), dtype=torch.int32).copy_(x),
    ],
)
def test_what_does_not_fit_ends_at_the_nearest_integer_and_nan_at_zero(convert, dtype):
    with pretending_cuda("sm_90"):
        found = convert(torch.tensor(GIVEN, dtype=dtype))
    assert found.tolist() == [*AS_INT32, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_long_integers_end_at_theirs_and_nan_at_the_lowest(dtype):
    with pretending_cuda("sm_90"):
        found = torch.tensor([1.5, -torch.inf, torch.inf, torch.nan], dtype=dtype).long()
    lowest, highest = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
    assert found.tolist() == [1, lowest, highest, lowest]


def test_what_fits_and_what_stands_for_other_tensors_is_converted_as_ever():
    with pretending_cuda("sm_90"):
        assert torch.tensor([[1.5, 2.5]], requires_grad=True).t().int().tolist() == [[1], [2]]
        assert torch.vmap(lambda row: row.int())(torch.tensor([[3e9, 1.0]])).shape == (1, 2)
        assert torch.empty(3, device="meta").int().shape == (3,)
