"""What the fitted constants say of operations, and what no fit may break."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from kernelagent.domain.errors import UsageError
from kernelagent.tools.estimates.fusing import Call, Group, compiled
from kernelagent.tools.estimates.least import facts_of_least, least_of
from kernelagent.tools.estimates.library import Library, library_for
from kernelagent.tools.estimates.modules import traced
from kernelagent.tools.estimates.operations import Operation
from kernelagent.tools.estimates.windows import read_share
from kernelagent.tools.virtual.cost.ceilings import ceilings_for, gpus
from tests.lanes import examples

H100 = library_for(ceilings_for("h100"))


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def operations(module: nn.Module, *args: torch.Tensor) -> tuple[Operation, ...]:
    return traced(module.to("meta"), args, {})


class Calling(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize("key", list(gpus()))
def test_every_gpu_prices_a_matmul_between_its_peak_and_a_tenth_of_it(key: str) -> None:
    gpu = ceilings_for(key)
    result = library_for(gpu).eager(
        operations(Calling(torch.mm), meta(8192, 8192), meta(8192, 8192))
    )
    fastest = 1e6 * 2 * 8192**3 / gpu.fp32_flops_per_s
    assert fastest < result.us.value < 10 * fastest


@pytest.mark.parametrize("name", ["h100", "H100", "h100-sxm", "a100-40", "l4", "t4", "rtx-4090"])
def test_a_gpu_is_found_by_its_name(name: str) -> None:
    assert name.lower().startswith(ceilings_for(name).key[:2])


def test_a_name_that_nothing_has_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="use one of h200, sm_90, h100"):
        ceilings_for("voodoo2")


def test_faster_memory_makes_elementwise_work_faster() -> None:
    work = operations(nn.ReLU(), meta(1 << 28))
    slow, fast = (library_for(ceilings_for(k)).eager(work).us.value for k in ("h100-pcie", "h200"))
    assert slow > 1.5 * fast


def test_layer_norm_over_few_long_rows_is_far_from_the_bandwidth() -> None:
    """KernelBench level 1, problem 40's kind: 16 rows leave most multiprocessors without one."""
    few = operations(nn.LayerNorm((64, 256, 256)), meta(16, 64, 256, 256))
    many = operations(nn.LayerNorm(4096), meta(16384, 4096))
    assert H100.eager(few).us.value > 3 * H100.eager(many).us.value


def test_an_operand_that_is_broadcast_costs_an_elementwise_kernel_its_wide_loads() -> None:
    x = meta(1 << 13, 1 << 13)
    same = operations(Calling(torch.div), x, x)
    spread = operations(Calling(torch.div), x, meta(1 << 13, 1))
    # A third of the bytes are gone, and less than a third of the time.
    saved = H100.eager(spread).us.value / H100.eager(same).us.value
    assert 2 / 3 < saved < 1


def test_a_mask_of_another_type_is_cast_element_by_element() -> None:
    x = meta(1 << 13, 1 << 13)
    mask = meta(1 << 13, 1 << 13, dtype=torch.bool)
    product = operations(Calling(torch.mul), x, mask)
    chosen = operations(Calling(lambda x, m: torch.where(m, x, x)), x, mask)
    assert product[0].facts["mapped"] == 1.0
    assert chosen[0].facts["mapped"] == 0.0


def test_a_batch_norm_over_few_channels_waits_for_its_loads() -> None:
    few = operations(nn.BatchNorm2d(16), meta(64, 16, 512, 512))
    many = operations(nn.BatchNorm2d(1024), meta(64, 1024, 64, 64))
    assert H100.eager(few).us.value > 2 * H100.eager(many).us.value
    assert H100.eager(few).bound == "dram"


def test_a_running_sum_along_long_rows_is_slower_than_its_bytes() -> None:
    x = meta(1 << 15, 1 << 15)
    scan = operations(Calling(lambda x: torch.cumsum(x, 1)), x)
    copy = operations(Calling(lambda x: x * 2), x)
    assert H100.eager(scan).us.value > 1.3 * H100.eager(copy).us.value


def test_a_softmax_whose_rows_at_work_stay_in_the_cache_reads_memory_once() -> None:
    total = 1 << 30
    short, long = (
        operations(Calling(lambda x: F.softmax(x, -1)), meta(total // length, length))
        for length in (1 << 14, 1 << 20)
    )
    assert H100.eager(long).us.value > 1.15 * H100.eager(short).us.value


def test_a_window_of_one_element_needs_no_copies_with_channels_last() -> None:
    x = meta(16, 64, 512, 512)
    one, three = (operations(nn.Conv2d(64, 64, n, padding=n // 2, bias=False), x) for n in (1, 3))
    moved = sum(o.moved_bytes for o in (*one[0].reads, *one[0].writes))
    pass_us = 1e6 * moved / H100.gpu.dram_bytes_per_s
    assert H100.eager(one).us.value < 2 * pass_us < H100.eager(three).us.value


def test_kernels_for_dilated_windows_multiply_the_zeros_between_strided_inputs() -> None:
    x = meta(16, 64, 64, 128)
    plain, dilated = (
        operations(nn.ConvTranspose2d(64, 64, 3, stride=4, dilation=d, bias=False), x)
        for d in (1, 2)
    )
    assert plain[0].flops == dilated[0].flops
    assert H100.eager(dilated).us.value > 1.3 * H100.eager(plain).us.value


def test_attention_with_heads_wider_than_registers_keeps_its_sums_in_memory() -> None:
    def attend(heads: int, head: int) -> float:
        x = meta(32, heads, 512, head, dtype=torch.float16)
        work = operations(Calling(lambda q: F.scaled_dot_product_attention(q, q, q)), x)
        return H100.eager(work).us.value

    assert attend(32, 1024) > 2 * attend(256, 128)


def test_a_recurrent_layer_is_one_call_whose_steps_wait_for_each_other() -> None:
    short = operations(nn.LSTM(128, 256, 6, batch_first=True), meta(10, 64, 128))
    long = operations(nn.LSTM(128, 256, 6, batch_first=True), meta(10, 512, 128))
    assert [o.name for o in long if o.kind != "fill"] == ["lstm"]
    assert H100.eager(long).us.value > 4 * H100.eager(short).us.value


def test_the_library_prices_a_bias_of_a_convolution_as_a_pass_of_its_own() -> None:
    x = meta(16, 64, 128, 128)
    plain, biased = (operations(nn.Conv2d(64, 64, 3, bias=b), x) for b in (False, True))
    extra = H100.eager(biased).us.value - H100.eager(plain).us.value
    moved = 2 * 16 * 64 * 126 * 126 * 4
    assert extra > 0.8e6 * moved / H100.gpu.dram_bytes_per_s


def test_compiling_fuses_elementwise_operations_into_one_kernel() -> None:
    work = operations(Calling(lambda x: torch.tanh(F.relu(x) + 1) * 2), meta(1 << 26))
    assert len(work) == 4
    (kernel,) = compiled(work)
    assert isinstance(kernel, Group)
    assert H100.eager(work).us.value > 3 * H100.compiled(work).us.value


def test_compiling_keeps_products_as_library_calls() -> None:
    steps = compiled(operations(nn.Sequential(nn.Linear(512, 512), nn.ReLU()), meta(512, 512)))
    assert [type(step) for step in steps] == [Call, Group]


def test_an_interval_holds_its_value_and_is_wider_for_a_gpu_that_nobody_measured() -> None:
    work = operations(nn.ReLU(), meta(1 << 28))
    known, other = (library_for(ceilings_for(k)).eager(work).us for k in ("h100", "h200"))
    assert known.low < known.value < known.high
    assert other.spread > known.spread


def _network(width: int, kind: int) -> tuple[nn.Module, torch.Tensor]:
    if kind == 0:
        return nn.Sequential(nn.Conv2d(8, width, 3), nn.BatchNorm2d(width)), meta(4, 8, 64, 64)
    if kind == 1:
        return nn.Sequential(nn.Linear(width, width), nn.GELU()), meta(256, width)
    return Calling(lambda x: F.softmax(x, -1).sum(0)), meta(64, width * 64)


@settings(deadline=None, max_examples=examples(30))
@given(st.integers(1, 512), st.integers(0, 2), st.sampled_from(["h100", "a100", "l4", "b200"]))
def test_no_estimate_is_negative_or_without_end(width: int, kind: int, key: str) -> None:
    library: Library = library_for(ceilings_for(key))
    module, x = _network(width, kind)
    work = operations(module, x)
    for forward in (library.eager(work), library.compiled(work)):
        assert 0 < forward.us.low <= forward.us.high < math.inf
    assert least_of(work, library.gpu).device_us > 0


def test_the_least_leaves_out_what_lies_between_windows() -> None:
    size, result = 128, 62
    pool = nn.MaxPool3d(3, stride=2, padding=1, dilation=3)
    least = least_of(operations(pool, meta(4, 8, size, size, size)), H100.gpu)
    # Of the even places the first and the last are in no window; along rows all are moved.
    planes = (size - 2) ** 2 * size
    assert least.moved_bytes == 4 * 4 * 8 * (planes + result**3)
    apart = nn.Conv2d(8, 8, 1, stride=2, bias=False)
    least = least_of(operations(apart, meta(4, 8, size, size)), H100.gpu)
    assert least.moved_bytes == 4 * (4 * 8 * (size // 2 * size + (size // 2) ** 2) + 8 * 8)


def test_one_stride_may_stand_for_all_dimensions_of_a_convolution() -> None:
    def convolved(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.convolution(x, weight, None, (2,), (0,), (1,), False, (0,), 1)

    work = operations(Calling(convolved), meta(1, 4, 64, 64), meta(4, 4, 1, 1))
    assert least_of(work, H100.gpu).moved_bytes == 4 * (4 * 32 * 64 + 4 * 32 * 32 + 4 * 4)


@given(
    st.integers(1, 20), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2), st.integers(1, 3)
)
def test_windows_read_what_unfolding_says(
    size: int, window: int, stride: int, padding: int, dilation: int
) -> None:
    reach = size + 2 * padding - dilation * (window - 1)
    assume(reach >= 1)
    result = (reach - 1) // stride + 1
    found = read_share(
        [size, 1], [window, 1], [result, 1], [stride, 1], [padding, 0], [dilation, 1]
    )
    column = torch.arange(1.0, size + 1).reshape(1, 1, size, 1)
    met = nn.functional.unfold(column, (window, 1), (dilation, 1), (padding, 0), (stride, 1))
    assert found == pytest.approx(len(set(met.flatten().tolist()) - {0.0}) / size)


def test_the_least_counts_a_convolutions_products_and_its_input() -> None:
    """KernelBench level 2, problem 82's kind: only the output's bytes used to count."""
    net = nn.Sequential(nn.Conv2d(8, 64, 3), nn.Tanh(), nn.MaxPool2d(4))
    least = least_of(operations(net, meta(128, 8, 256, 256)), H100.gpu)
    assert least.flops == {"tf32": 2 * 128 * 64 * 254 * 254 * 8 * 9}
    assert least.moved_bytes >= 128 * 8 * 256 * 256 * 4
    # fp16 holds tf32's significand, at twice its rate.
    products_us = 1e6 * least.flops["tf32"] / H100.gpu.dot_flops_per_s["fp16"]
    assert least.math_us < 1.2 * products_us / H100.gpu.dot_efficiency


def test_a_small_module_in_one_launch_has_nothing_left_to_gain() -> None:
    """The host's time for a launch is in a candidate's estimate, so it is in the least as well."""
    least = least_of(operations(nn.ReLU(), meta(256)), H100.gpu)
    one_launch = H100.in_one_launch(least.device_us)
    facts = facts_of_least("default", least, one_launch, 4 * one_launch, H100)
    assert (facts.left, facts.binds) == (0, "launch")
    twice = facts_of_least("default", least, 2 * one_launch, 4 * one_launch, H100)
    assert twice.left == pytest.approx(0.5, abs=1e-3)


def test_the_least_is_never_said_to_lie_above_eager() -> None:
    least = least_of(operations(nn.ReLU(), meta(256)), H100.gpu)
    assert facts_of_least("default", least, 5.0, 1.0, H100).least_us == 1.0


def test_what_is_added_into_few_places_is_added_one_after_another() -> None:
    places, values = torch.empty(1 << 22, dtype=torch.int64, device="meta"), meta(1 << 22)

    def into(count: int) -> float:
        def summed(places: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return torch.zeros(count, device="meta").index_add_(0, places, values)

        return H100.eager(operations(Calling(summed), places, values)).us.value

    assert into(4) > 1000
    assert into(1 << 20) < 100


def test_a_running_sum_of_few_long_columns_takes_a_step_after_another() -> None:
    columns = operations(Calling(lambda x: torch.cumsum(x, 0)), meta(1 << 20, 2))
    assert H100.eager(columns).us.value > 1000


class WrittenOut(nn.Module):
    """Attention as textbooks have it, with a mask or without."""

    def __init__(self, *, masks: bool) -> None:
        super().__init__()
        self.into = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)
        self.masks = masks
        self.register_buffer("mask", torch.ones(64, 64).tril())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.into(x).split(32, dim=-1)
        scores = (q @ k.transpose(-2, -1)) * 32**-0.5
        if self.masks:
            scores = scores.masked_fill(self.mask == 0, float("-inf"))
        return self.out(torch.softmax(scores, dim=-1) @ v)


def test_what_a_mask_may_hide_of_attention_is_not_in_the_least() -> None:
    """A kernel leaves out the tiles that a causal mask hides, and is faster than all products would be."""
    linear, attention = 2 * 8 * 64 * 32 * (96 + 32), 2 * 2 * 8 * 64 * 64 * 32

    def least(*, masks: bool) -> int:
        work = operations(WrittenOut(masks=masks), meta(8, 64, 32))
        return sum(least_of(work, H100.gpu).flops.values())

    assert least(masks=False) == linear + attention
    assert least(masks=True) == linear
