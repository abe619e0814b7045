from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.eager import EagerRow, EagerTraffic, eager_rows
from kernelagent.tools.virtual.cost.residency import AddressSpace, L2Cache
from kernelagent.tools.virtual.cost.traffic import TrafficCounter
from kernelagent.tools.virtual.executor.launch import Launch
from tests.tools.virtual.arguments import tensor_argument

_MIB = 1 << 20


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def only(function, *args) -> EagerRow:
    rows = eager_rows(function, args, {})
    assert len(rows) == 1, [row.name for row in rows]
    return rows[0]


def test_an_elementwise_operation_reads_and_writes_each_tensor_once():
    row = only(torch.add, meta(4096, 4096), meta(4096, 4096))
    assert (row.loaded_bytes, row.stored_bytes) == (128 * _MIB, 64 * _MIB)
    assert row.dram_bytes == 192 * _MIB
    assert row.fp_operations == 4096 * 4096
    assert row.special_operations == 0


def test_a_large_result_is_read_from_dram_again():
    rows = eager_rows(lambda x, y: torch.relu(x + y), (meta(4096, 4096), meta(4096, 4096)), {})
    assert [row.name for row in rows] == ["add", "relu"]
    assert rows[1].dram_bytes == pytest.approx(128 * _MIB, rel=0.02)


def test_a_small_result_is_still_in_l2():
    rows = eager_rows(lambda x: torch.relu(x + 1), (meta(1024, 1024),), {})
    assert rows[1].loaded_bytes == 4 * _MIB
    assert rows[1].dram_bytes == 4 * _MIB


def test_views_and_allocations_are_free():
    def shuffle(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x.transpose(0, 1).reshape(4, 2, 8)[:, :1].detach())

    assert eager_rows(shuffle, (meta(8, 8).t(),), {}) == []


def test_an_expanded_operand_is_read_once():
    row = only(torch.add, meta(1024, 1024), meta(1024))
    assert row.loaded_bytes == 4 * _MIB + 4096
    assert row.fp_operations == 1024 * 1024


def test_an_expanded_view_has_the_bytes_of_what_it_was_made_from():
    row = only(lambda x: x.expand(1024, 1024).clone(), meta(1024))
    assert row.loaded_bytes == 4096
    assert row.stored_bytes == 4 * _MIB


def test_every_other_element_still_costs_every_sector():
    row = only(lambda x: x[:, ::2] + 1, meta(1024, 1024))
    assert row.loaded_bytes == pytest.approx(4 * _MIB, rel=0.001)
    assert row.stored_bytes == 2 * _MIB


def test_a_column_costs_a_sector_an_element():
    row = only(lambda x: x[:, 0] + 1, meta(1024, 1024))
    assert row.loaded_bytes == 1024 * 32


def test_an_embedding_reads_what_it_returns_and_not_the_table():
    ids = meta(512, dtype=torch.int64)
    row = only(F.embedding, ids, meta(128_000, 4096, dtype=torch.bfloat16))
    assert row.loaded_bytes == 512 * 8 + 512 * 4096 * 2
    assert row.dram_bytes <= row.loaded_bytes + row.stored_bytes


def test_writing_one_position_of_a_cache_does_not_move_the_cache():
    cache, item = meta(8, 8192, 1024), meta(8, 1, 1024)
    row = only(lambda c, i, v: c.index_copy_(1, i, v), cache, meta(1, dtype=torch.int64), item)
    assert row.stored_bytes < 8 * 1024 * 4 + 64
    assert row.dram_bytes < 4 * 8 * 1024 * 4


def test_an_operation_in_place_reads_and_writes():
    row = only(torch.Tensor.add_, meta(1024, 1024), meta(1024, 1024))
    assert (row.loaded_bytes, row.stored_bytes) == (8 * _MIB, 4 * _MIB)
    assert row.dram_bytes == 12 * _MIB


def test_a_copy_and_a_fill_do_not_read_their_target():
    assert only(torch.Tensor.copy_, meta(1024, 1024), meta(1024, 1024)).loaded_bytes == 4 * _MIB
    assert only(torch.Tensor.zero_, meta(1024, 1024)).loaded_bytes == 0
    out = meta(1024, 1024)
    written = only(lambda x: torch.neg(x, out=out), meta(1024, 1024))
    assert (written.loaded_bytes, written.stored_bytes) == (4 * _MIB, 4 * _MIB)


@pytest.mark.parametrize(
    ("dtype", "spelling"),
    [(torch.bfloat16, "bf16"), (torch.float16, "fp16"), (torch.float32, "fp32")],
)
def test_a_linear_layer_is_one_matrix_operation(dtype: torch.dtype, spelling: str):
    x, w, b = meta(64, 128, dtype=dtype), meta(256, 128, dtype=dtype), meta(256, dtype=dtype)
    row = only(F.linear, x, w, b)
    assert (row.dot_flops, row.dot_type) == (2 * 64 * 128 * 256, spelling)


def test_tf32_is_used_where_torch_may_use_it():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert only(torch.mm, meta(64, 64), meta(64, 64)).dot_type == "tf32"
    finally:
        torch.set_float32_matmul_precision(before)


def test_special_functions_are_one_per_element():
    assert only(torch.exp, meta(1000)).special_operations == 1000
    assert only(lambda x: torch.softmax(x, -1), meta(8, 125)).special_operations == 1000


def test_double_precision_runs_on_its_own_units():
    row = only(torch.neg, meta(1000, dtype=torch.float64))
    assert (row.fp_operations, row.fp64_operations) == (0, 1000)


def test_attention_is_one_operation_that_keeps_its_scores_to_itself():
    q = meta(2, 8, 1024, 64, dtype=torch.bfloat16)
    row = only(lambda q: F.scaled_dot_product_attention(q, q, q), q)
    assert row.dot_flops == 2 * (2 * 8 * 1024 * 1024) * (64 + 64)
    assert row.special_operations == 2 * 8 * 1024 * 1024
    assert row.stored_bytes == q.numel() * 2
    causal = only(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), q)
    assert causal.dot_flops == row.dot_flops // 2


def test_rms_norm_is_one_operation():
    x = meta(4096, 1024, dtype=torch.bfloat16)
    row = only(lambda x, w: F.rms_norm(x, (1024,), w), x, meta(1024, dtype=torch.bfloat16))
    assert row.name == "rms_norm"
    assert row.stored_bytes == 4096 * 1024 * 2


def test_counting_goes_on_after_a_fused_function_raised():
    def stumble(x: torch.Tensor) -> torch.Tensor:
        with pytest.raises(RuntimeError):
            F.rms_norm(x, (7,))
        return x + 1

    assert [row.name for row in eager_rows(stumble, (meta(4, 8),), {})] == ["add"]


def test_the_result_passes_through_unchanged():
    x = torch.randn(16, 16)
    with EagerTraffic(L2Cache(AddressSpace(), 50 * _MIB)) as traffic:
        y = F.rms_norm(x @ x, (16,)) + 1
    torch.testing.assert_close(y, F.rms_norm(x @ x, (16,)) + 1)
    assert [row.name for row in traffic.rows] == ["mm", "rms_norm", "add"]


def test_two_counts_are_identical():
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(F.gelu(x @ x) + x, -1)

    x = meta(2048, 2048, dtype=torch.bfloat16)
    assert eager_rows(forward, (x,), {}) == eager_rows(forward, (x,), {})


def test_a_launch_finds_in_l2_what_a_torch_operation_left_there():
    counter = TrafficCounter("sm_90")
    with EagerTraffic(counter.cache) as traffic:
        x = torch.ones(1024, 1024) + 1
    launch = Launch(0, "kernel", 1, (1, 1, 1), (tensor_argument("x", x),), {}, {})
    counter.launch_begins(launch)
    counter.program_begins((0, 0, 0))
    lanes = torch.arange(1024 * 1024).numpy().astype("uint64") * 4 + x.data_ptr()
    counter.access("load", lanes, 4, lanes.size)
    counter.launch_ends(launch)
    assert traffic.rows[-1].name == "add"
    assert counter.result(launch).distinct_load_bytes == 4 * _MIB
    assert counter.result(launch).dram_load_bytes == 0


def test_the_size_of_l2_is_the_targets():
    x = meta(11, _MIB)
    forward = lambda x: (x + 1) + 1  # noqa: E731
    small, large = (eager_rows(forward, (x,), {}, target) for target in ("sm_80", "sm_100"))
    assert ceilings_for("sm_80").l2_bytes < 2 * x.nbytes < ceilings_for("sm_100").l2_bytes
    assert small[1].dram_bytes > large[1].dram_bytes == x.nbytes
