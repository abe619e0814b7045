from __future__ import annotations

from functools import partial
from time import process_time

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kernelagent.tools.judge.bounds.headroom import headroom_of, implausible
from kernelagent.tools.judge.bounds.operation_needs import Known, Operation, demands_of, key_of
from kernelagent.tools.virtual.cost.ceilings import ceilings_for

H200 = ceilings_for("sm_90")
MIB = 1 << 20


class Calling(nn.Module):
    def __init__(self, function, **buffers):
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args):
        return self.function(self, *args) if list(self.buffers()) else self.function(*args)


def meta(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device="meta")


def bytes_of(module, *args):
    if not isinstance(module, nn.Module):
        module = Calling(module)
    result = headroom_of(module, args, {}, H200)
    return result.input_bytes, result.state_bytes, result.output_bytes


def test_softmax_reads_and_writes_its_tensor_once():
    result = headroom_of(nn.Softmax(-1), (meta(4096, 4096),), {}, H200)
    assert (result.input_bytes, result.state_bytes, result.output_bytes) == (64 * MIB, 0, 64 * MIB)
    assert result.fewest_bytes == 128 * MIB
    assert result.fewest_flops == {}
    assert result.binds == "dram"
    assert result.bound_us == pytest.approx(128 * MIB / 4.8e12 * 1e6)
    assert result.attained(2 * result.bound_us) == pytest.approx(0.5)


def test_layer_norm_reads_its_weight_and_bias_too():
    assert bytes_of(nn.LayerNorm(512), meta(64, 512)) == (64 * 2048, 2 * 2048, 64 * 2048)


def test_a_product_is_bound_by_its_operations_at_the_peak_of_its_type():
    half = meta(4096, 4096, dtype=torch.bfloat16)
    result = headroom_of(Calling(torch.matmul), (half, half.clone()), {}, H200)
    assert result.fewest_flops == {"bf16": 2 * 4096**3}
    assert result.fewest_bytes == 3 * 32 * MIB
    assert result.binds == "math"
    assert result.bound_us == pytest.approx(2 * 4096**3 / 989e12 * 1e6)


def test_a_linear_layer_reads_its_weights_once():
    result = headroom_of(nn.Linear(64, 32), (meta(8, 16, 64),), {}, H200)
    assert result.input_bytes == 8 * 16 * 64 * 4
    assert result.state_bytes == (64 * 32 + 32) * 4
    assert result.output_bytes == 8 * 16 * 32 * 4
    assert result.fewest_flops == {"fp32": 2 * 8 * 16 * 64 * 32}


def test_an_embedding_must_read_the_ids_but_nobody_knows_which_rows():
    ids = meta(4, 128, dtype=torch.int64)
    assert bytes_of(nn.Embedding(1000, 64), ids) == (4096, 0, 4 * 128 * 64 * 4)


def test_a_gather_does_not_count_what_it_picks_from():
    picked = bytes_of(lambda x, at: x.gather(1, at), meta(64, 1000), meta(64, 1, dtype=torch.int64))
    assert picked == (64 * 8, 0, 64 * 4)


def test_a_returned_view_moves_nothing():
    assert bytes_of(lambda x: x.transpose(0, 1)[:3], meta(8, 8)) == (0, 0, 0)


def test_only_the_part_that_a_view_selects_is_read():
    assert bytes_of(lambda x: x[:, 0] + 1, meta(64, 100)) == (256, 0, 256)
    assert bytes_of(lambda x: x[:, :60].exp() + x[:, 40:].exp(), meta(64, 100))[0] == 64 * 400
    assert bytes_of(lambda x: x[:, :60].exp() + x[:, :60].sin(), meta(64, 100))[0] == 64 * 240


def test_an_expanded_operand_counts_once():
    assert bytes_of(lambda x, y: x + y, meta(64, 100), meta(100))[0] == 64 * 400 + 400
    assert bytes_of(lambda x: x.expand(64, 100).exp(), meta(100)) == (400, 0, 64 * 400)


def test_what_is_computed_and_not_returned_is_not_needed():
    def wasteful(x, y):
        y.exp().sum()
        return x.exp()

    assert bytes_of(wasteful, meta(10), meta(1000)) == (40, 0, 40)


def test_what_only_feeds_a_part_that_is_cut_off_is_not_needed():
    assert bytes_of(lambda x: x.exp()[:, 0] + 1, meta(64, 100)) == (0, 0, 256)


def test_a_mask_is_read_and_what_it_may_hide_is_not():
    mask = meta(64, 100, dtype=torch.bool)
    hidden = bytes_of(lambda x, m: x.masked_fill(m, 0.0), meta(64, 100), mask)
    assert hidden == (64 * 100, 0, 64 * 400)
    chosen = bytes_of(lambda m, x, y: torch.where(m, x, y), mask, meta(64, 100), meta(64, 100))
    assert chosen == (64 * 100, 0, 64 * 400)
    in_place = bytes_of(lambda x, m: x.clone().masked_fill_(m, 0.0), meta(64, 100), mask)
    assert in_place == (64 * 100, 0, 64 * 400)
    assert bytes_of(torch.tril, meta(64, 64))[0] == 0


def test_a_causal_mask_kept_as_a_buffer_hides_scores_by_its_values():
    hidden = torch.full((64, 64), float("-inf")).triu(1)
    masking = Calling(lambda self, x: (x + self.mask).softmax(-1), mask=hidden)
    assert bytes_of(masking, meta(8, 64, 64))[0] == 0
    shifting = Calling(lambda self, x: (x + self.mask).softmax(-1), mask=torch.zeros(64, 64))
    assert bytes_of(shifting, meta(8, 64, 64))[0] == 8 * 64 * 64 * 4


def test_products_with_what_a_mask_was_laid_over_are_not_counted():
    """Half of them may be left out, as in causal attention that is written out."""

    def attention(self, q, k, v):
        scores = (q @ k.transpose(-2, -1)).masked_fill(self.mask == 0, float("-inf"))
        return scores.softmax(-1) @ v @ self.out

    written_out = Calling(attention, mask=torch.ones(64, 64).tril(), out=torch.randn(32, 32))
    tensors = [meta(8, 64, 32) for _ in range(3)]
    flops = headroom_of(written_out, tensors, {}, H200).fewest_flops
    assert sum(flops.values()) == 2 * 8 * 64 * 32 * 32
    plain = Calling(lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-1) @ v)
    both = headroom_of(plain, tensors, {}, H200).fewest_flops
    assert sum(both.values()) == 2 * 2 * 8 * 64 * 64 * 32


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, m: x.tril() @ w,
        lambda x, w, m: x.masked_fill(m, 0.0) @ w,
        lambda x, w, m: (x.softmax(-1).tril() * 2) @ w,
        lambda x, w, m: x.masked_fill(m, float("-inf")).exp() @ w,
        lambda x, w, m: (x.tril() + x.tril(-1)) @ w,
    ],
)
def test_products_with_triangles_and_what_is_filled_with_zeros_are_not_counted(function):
    mask = meta(64, 64, dtype=torch.bool)
    flops = headroom_of(Calling(function), [meta(64, 64), meta(64, 64), mask], {}, H200)
    assert not flops.fewest_flops


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, m: torch.where(x > 0, x, x.exp() - 1) @ w,
        lambda x, w, m: (x + x.masked_fill(m, 0.0)) @ w,
        lambda x, w, m: x.masked_fill(m, 1.0).softmax(-1) @ w,
        lambda x, w, m: torch.exp(x.tril()) @ w,
    ],
)
def test_products_of_what_is_chosen_otherwise_are_counted(function):
    mask = meta(64, 64, dtype=torch.bool)
    flops = headroom_of(Calling(function), [meta(64, 64), meta(64, 64), mask], {}, H200)
    assert sum(flops.fewest_flops.values()) == 2 * 64**3


@pytest.mark.parametrize(("value", "read"), [(448.0, 8 * 64 * 4), (float("nan"), 0)])
def test_a_buffer_of_eight_bit_floats_hides_by_its_values_too(value, read):
    shift = torch.full((64,), value).to(torch.float8_e4m3fn)
    shifting = Calling(lambda self, x: x + self.shift.float(), shift=shift)
    assert bytes_of(shifting, meta(8, 64)) == (read, 64, 8 * 64 * 4)


def test_batch_norm_reads_its_statistics_though_the_mean_is_zero():
    values = 2 * 8 * 16 * 4
    assert bytes_of(nn.BatchNorm1d(8).eval(), meta(2, 8, 16)) == (values, 4 * 8 * 4, values)


def test_a_convolution_with_a_stride_skips_what_no_tap_meets():
    item = nn.Conv2d(4, 8, 1, stride=2, bias=False)
    assert bytes_of(item, meta(2, 4, 8, 8)) == (2 * 4 * 16 * 4, 4 * 8 * 4, 2 * 8 * 16 * 4)
    padded = nn.Conv2d(4, 8, 3, padding=1, bias=False)
    assert bytes_of(padded, meta(1, 4, 1, 1)) == (16, 4 * 8 * 4, 32)


def test_cross_entropy_reads_every_logit_but_given_log_probabilities_only_where_picked():
    labels = meta(64, dtype=torch.int64)
    assert bytes_of(F.cross_entropy, meta(64, 1000), labels) == (64 * 4000 + 512, 0, 4)
    assert bytes_of(F.nll_loss, meta(64, 1000), labels) == (512, 0, 4)


def test_causal_attention_counts_the_pairs_that_take_part():
    query = meta(2, 4, 128, 64, dtype=torch.float16)
    causal = Calling(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    result = headroom_of(causal, (query, query.clone(), query.clone()), {}, H200)
    assert result.input_bytes == 3 * query.numel() * 2
    assert result.fewest_flops == {"fp16": 8 * (128 * 129 // 2) * 2 * (64 + 64)}


def test_an_input_changed_in_place_is_read_and_written():
    assert bytes_of(lambda x: x.add_(1), meta(100)) == (400, 0, 400)
    assert bytes_of(lambda x, y: x.copy_(y), meta(100), meta(100)) == (400, 0, 400)


def test_a_module_returning_the_same_tensor_twice_writes_it_once():
    assert bytes_of(lambda x: (lambda y: (y, y.view(-1)))(x.exp()), meta(10, 10)) == (400, 0, 400)


def test_tied_weights_are_read_once():
    layer = nn.Linear(64, 64, bias=False)
    tied = nn.Sequential(layer, layer)
    assert bytes_of(tied, meta(4, 64))[1] == 64 * 64 * 4


def test_faster_than_writing_the_outputs_is_implausible():
    result = headroom_of(Calling(torch.exp), (meta(1024, 1024, 1024),), {}, H200)
    least = 0.95 * (4096 * MIB - H200.l2_bytes) / 4.8e12 * 1e6
    assert implausible(least * 1.001, result) is None
    assert "4294967296 bytes of output" in (implausible(least * 0.999, result) or "")


def test_small_outputs_may_stay_in_the_cache():
    result = headroom_of(Calling(torch.exp), (meta(1024, 1024),), {}, H200)
    in_cache = 0.95 * 4 * MIB / H200.l2_bytes_per_s * 1e6
    assert implausible(in_cache * 1.001, result) is None
    assert implausible(in_cache * 0.999, result) is not None


def test_a_result_without_bytes_is_never_implausible():
    result = headroom_of(Calling(lambda x: x.t()), (meta(8, 8),), {}, H200)
    assert implausible(1e-3, result) is None


class Recurrent(nn.Module):
    def __init__(self, layer, pick):
        super().__init__()
        self.layer, self.pick = layer, pick

    def forward(self, x):
        return self.pick(*self.layer(x))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("pick", [lambda out, state: out, lambda out, state: state])
def test_a_recurrent_layer_of_many_steps_reads_what_it_is_given_once_and_is_not_unrolled(
    kind, pick
):
    gates = {nn.LSTM: 4, nn.GRU: 3}[kind]
    layer = kind(32, 64, 2, batch_first=True)
    began = process_time()
    result = headroom_of(Recurrent(layer, pick), (meta(5, 700, 32),), {}, H200)
    assert process_time() - began < 1
    assert result.input_bytes == 4 * 5 * 700 * 32
    assert result.state_bytes == 4 * sum(p.numel() for p in layer.parameters())
    products = 5 * 700 * gates * 64 * (32 + 64 + 64 + 64)
    assert result.fewest_flops == {"fp32": 2 * products}


def test_what_a_weight_of_zeros_in_a_recurrent_layer_hides_is_not_counted():
    x, hidden = meta(4, 9, 8), meta(1, 4, 16)
    weights = [meta(48, 8), meta(48, 16), meta(48), meta(48)]
    operation = Operation(
        "gru", (x, hidden, weights, True, 1, 0.0, False, False, True), {}, (meta(4, 9, 16),), ()
    )
    nothing = Known({}, frozenset())
    zeros = Known({key_of(weights[0]): 1}, frozenset())
    assert len(demands_of(operation, nothing)) == 6
    assert demands_of(operation, zeros) == []


def gru(x):
    made = partial(torch.linspace, -1.0, 1.0, dtype=x.dtype, device=x.device)
    weights = [made(96).reshape(12, 8), made(48).reshape(12, 4), made(12), made(12)]
    hidden = torch.zeros(1, 3, 4, dtype=x.dtype, device=x.device)
    return torch.gru(x, hidden, weights, True, 1, 0.0, False, False, True)[0]


_PARTLY_BLIND = {
    "strided convolution": lambda x: F.conv1d(x, x[:3, :, :2], stride=3),
    "pooling": lambda x: F.max_pool1d(x, 2, stride=3),
    "softmax then a slice": lambda x: x.softmax(-1)[:, :1] + 1,
    "overwritten": lambda x: x.clone().index_fill_(1, torch.tensor([0], device=x.device), 0.0),
    "one half overwritten": lambda x: torch.cat([x, x])[3:].tanh(),
    "cropped": lambda x: F.pad(x, (-1, -2)),
    "rolled window": lambda x: x.unfold(-1, 3, 4).sum(-1),
    "assigned": lambda x: torch.zeros_like(x).copy_(x * 2).mul_(x),
    "normed": lambda x: F.rms_norm(x, x.shape[-1:]),
    "product": lambda x: x @ x.transpose(-1, -2),
    "first only": lambda x: x.cumsum(-1)[..., 0] * 1,
    "one hot": lambda x: x @ torch.eye(8, dtype=x.dtype, device=x.device)[:, :4],
    "half": lambda x: torch.triu(x),
    "mapped": lambda x: x * (torch.arange(8, device=x.device) > 3).float(),
    "zeroed": lambda x: x * 0,
    "recurrent": gru,
    "recurrent, first step": lambda x: gru(x)[:, :1] * 1,
}


@pytest.mark.parametrize("name", _PARTLY_BLIND)
def test_no_more_is_counted_than_has_any_influence(name):
    function = _PARTLY_BLIND[name]
    chance = torch.Generator().manual_seed(0)
    values = torch.randn(3, 5, 8, generator=chance, dtype=torch.float64)
    influence = torch.zeros(values.shape, dtype=torch.bool)
    before = function(values.clone())
    for at in range(values.numel()):
        changed = values.clone()
        changed.view(-1)[at] += 40.0
        influence.view(-1)[at] = not torch.equal(function(changed), before)
    counted = bytes_of(function, meta(3, 5, 8, dtype=torch.float64))[0]
    assert counted <= int(influence.sum()) * 8


def test_where_tf32_passes_fp16_has_as_many_bits_and_twice_the_rate():
    result = headroom_of(nn.Conv2d(64, 128, 3), (meta(64, 64, 64, 64),), {}, H200)
    assert list(result.fewest_flops) == ["tf32"], "torch's own setting for convolutions"
    assert result.math_us == pytest.approx(result.fewest_flops["tf32"] / 989e12 * 1e6)
