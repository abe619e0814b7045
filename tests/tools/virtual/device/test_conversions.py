"""torch's conversions to integers on the virtual device: what does not fit ends where it does on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda

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
        kept = torch.from_numpy(
            np.zeros(2)
        )  # lies on the host, so that each result is asked for its place
        assert kept.int().tolist() == [0, 0]
        assert torch.tensor([[1.5, 2.5]], requires_grad=True).t().int().tolist() == [[1], [2]]
        assert torch.vmap(lambda row: row.int())(torch.tensor([[3e9, 1.0]])).shape == (1, 2)
        assert torch.empty(3, device="meta").int().shape == (3,)


def test_factors_of_a_candidates_convolution_are_rounded_as_cudnn_rounds_them():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 9, 8).to(memory_format=torch.channels_last)
    w = torch.randn(4, 5, 3, 3)
    exact = torch.conv2d(x, w)
    with pretending_cuda("sm_90", rounds=True):
        rounded = torch.nn.functional.conv2d(x, w)
    with pretending_cuda("sm_90"):
        assert torch.equal(torch.nn.functional.conv2d(x, w), exact)
    error = (rounded - exact).norm() / exact.norm()
    assert 1e-5 < error < 1e-3
    assert rounded.stride() == exact.stride()


def test_nothing_is_rounded_where_torch_says_so_where_gradients_are_recorded_or_in_other_types():
    x, w = torch.randn(2, 5, 9), torch.randn(4, 5, 3)
    learning = w.clone().requires_grad_()
    with pretending_cuda("sm_90", rounds=True):
        torch.conv1d(x, learning).sum().backward()
        assert torch.equal(
            torch.conv1d(x.double(), w.double()), torch.conv1d(x.double(), w.double())
        )
        with torch.backends.cudnn.flags(allow_tf32=False):
            assert torch.equal(torch.conv1d(x, w), torch.conv1d(x, learning).detach())
        assert not torch.equal(torch.conv1d(x, w), torch.conv1d(x, learning).detach())
    assert learning.grad is not None


@pytest.mark.parametrize("by_name", [True, False])
def test_a_convolution_of_each_channel_by_itself_stays_in_float32(by_name):
    x, w, mixing = torch.randn(2, 6, 9), torch.randn(12, 1, 3), torch.randn(6, 3, 3)

    def convolved(weight, groups):
        if by_name:
            return torch.conv1d(x, weight, groups=groups)
        return torch.nn.functional.conv1d(x, weight, None, 1, 0, 1, groups)

    exact, mixed = convolved(w, 6), convolved(mixing, 2)
    with pretending_cuda("sm_90", rounds=True):
        assert torch.equal(convolved(w, 6), exact)
        assert not torch.equal(convolved(mixing, 2), mixed)


def test_infinities_and_nan_stay_as_they_are():
    x = torch.tensor([[[1.0, torch.inf, torch.nan, 3.4e38]]])
    with pretending_cuda("sm_90", rounds=True):
        found = torch.conv1d(x, torch.ones(1, 1, 1))
    assert found[0, 0, 0] == 1
    assert found[0, 0, 1].isinf()
    assert found[0, 0, 2].isnan()


def test_integers_have_histograms_as_on_a_gpu():
    with pretending_cuda("sm_90"):
        experts = torch.tensor([0, 1, 1, 3, 3, 3, 9], dtype=torch.int32, device="cuda")
        counts = torch.histc(experts, bins=4, min=0, max=3)
    assert counts.dtype == torch.int32
    assert counts.tolist() == [1, 2, 0, 3]
