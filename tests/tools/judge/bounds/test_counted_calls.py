"""What two counted calls differ in, and what has not grown with the sizes."""

from __future__ import annotations

from dataclasses import fields, replace

from kernelagent.domain.serialization import to_data
from kernelagent.tools.judge.bounds.counted_calls import (
    CountedCall,
    computes_fewer,
    difference,
    grows_less,
)
from kernelagent.tools.virtual.cost.eager import EagerRow
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

_MIB = 1 << 20
_NOTHING = {item.name: 0 for item in fields(TrafficFacts) if item.type == "int"}
_MOVING = replace(
    TrafficFacts(**_NOTHING),
    requested_load_bytes=_MIB,
    requested_store_bytes=_MIB,
    distinct_load_bytes=_MIB,
    distinct_store_bytes=_MIB,
)
_RELU = EagerRow("relu", _MIB, _MIB, 2 * _MIB)


def row(kernel: str = "scale", grid: int = 8, traffic: TrafficFacts = _MOVING) -> dict:
    return {
        "kernel": kernel,
        "line": 7,
        "grid": [grid, 1, 1],
        "constexprs": {"BLOCK": 128},
        "options": {"num_warps": 4},
        "traffic": to_data(traffic),
    }


def times(traffic: TrafficFacts, factor: int) -> TrafficFacts:
    return replace(
        traffic, **{n: v * factor for n, v in vars(traffic).items() if isinstance(v, int)}
    )


def grown(factor: int) -> list[EagerRow]:
    return [replace(_RELU, loaded_bytes=factor * _MIB, stored_bytes=factor * _MIB)]


REAL = CountedCall([row()], [_RELU])


def test_the_same_work_is_the_same():
    nearly = replace(_MOVING, load_sector_bytes=_MOVING.load_sector_bytes + 2048)
    assert difference(REAL, CountedCall([row(traffic=nearly)], [_RELU])) is None


def test_another_grid_is_told_in_words():
    words = difference(REAL, CountedCall([row(grid=1)], [_RELU]))
    assert words is not None
    assert "launches scale[8, 1, 1]" in words
    assert "scale[1, 1, 1]" in words


def test_other_traffic_of_the_same_launch_is_told():
    less = replace(_MOVING, requested_load_bytes=_MIB // 2)
    words = difference(REAL, CountedCall([row(traffic=less)], [_RELU]))
    assert words is not None
    assert words.startswith("`scale` has other requested load bytes on real contents than without")
    assert "go by values that it loads" in words


def test_torch_working_on_less_without_contents_is_told():
    tiny = replace(_RELU, loaded_bytes=32, stored_bytes=32)
    assert "bytes moved" in str(difference(REAL, CountedCall([row()], [tiny])))
    assert "relu" in str(difference(REAL, CountedCall([row()], [])))


def test_work_that_grows_with_the_references_is_believed():
    full = CountedCall([row(grid=64, traffic=times(_MOVING, 8))], grown(8))
    assert grows_less(REAL, full, ([_RELU], grown(8))) is None


def test_work_that_stays_behind_the_references_is_told():
    full = CountedCall([row(grid=8)], [_RELU])
    assert "grow by 1 from" in str(grows_less(REAL, full, ([_RELU], grown(8))))


def test_a_fused_kernel_need_not_move_what_lies_between_operations() -> None:
    full = CountedCall([row(grid=64, traffic=times(_MOVING, 8))], [])
    executed = CountedCall([row()], [])
    reference = [_RELU], grown(64)
    assert "the reference's by 64" in str(grows_less(executed, full, reference))
    assert grows_less(executed, full, reference, (2 * _MIB, 16 * _MIB)) is None
    padded = str(grows_less(executed, full, reference, (_MIB // 4, 40 * _MIB)))
    assert "where it is executed it moves" in padded
    assert "padded to whole blocks" in padded
    less = grows_less(executed, full, reference, (2 * _MIB, 40 * _MIB))
    assert "padded" not in str(less)
    assert "those of inputs, weights and outputs by 20" in str(less)


def test_of_a_reference_with_less_to_do_half_must_be_done_though_little_was_executed() -> None:
    def products(flops: int) -> tuple[list[EagerRow], CountedCall]:
        made = CountedCall([row(traffic=replace(_MOVING, dot_flops={"tf32": flops}))], [])
        return [replace(_RELU, name="mm", dot_flops=flops)], made

    few, executed = products(1024)
    many, honest = products(64 * _MIB)
    _, idle = products(0)
    assert grows_less(executed, idle, (few, many)) is None
    words = grows_less(executed, idle, (few, many), at_least=True)
    assert "0 operations of products at the user's sizes, of 6.71e+07" in str(words)
    assert grows_less(executed, honest, (few, many), at_least=True) is None


def test_products_in_tiles_larger_than_the_executed_sizes_need_not_grow_from_there():
    def product(flops: int) -> list[EagerRow]:
        return [replace(_RELU, name="mm", dot_flops=flops)]

    def tiles(flops: int) -> CountedCall:
        return CountedCall([row(traffic=replace(_MOVING, dot_flops={"tf32": flops}))], [])

    executed, full = product(_MIB), product(64 * _MIB)
    assert grows_less(tiles(16 * _MIB), tiles(64 * _MIB), (executed, full)) is None
    less = grows_less(tiles(16 * _MIB), tiles(24 * _MIB), (executed, full))
    assert "operations of products grow by 24 from" in str(less)


def test_other_kernels_at_full_size_are_told_and_more_launches_of_the_same_are_not():
    more = CountedCall([row(traffic=times(_MOVING, 4)), row(traffic=times(_MOVING, 4))], grown(8))
    assert grows_less(REAL, more, ([_RELU], grown(8))) is None
    other = CountedCall([row("nothing")], grown(8))
    assert "nothing at the user's sizes" in str(grows_less(REAL, other, ([_RELU], grown(8))))


def test_functions_that_stay_behind_the_references_are_told_unless_fewer_were_needed_from_the_start():
    def functions(count: int) -> list[EagerRow]:
        return [replace(_RELU, name="exp", special_operations=count)]

    def kernel(count: int) -> CountedCall:
        return CountedCall([row(traffic=replace(_MOVING, special_operations=count))], [])

    reference = functions(_MIB), functions(4096 * _MIB)
    assert computes_fewer(kernel(_MIB), kernel(4096 * _MIB), reference) is None
    less = computes_fewer(kernel(_MIB), kernel(64 * _MIB), reference)
    assert "exponentials, roots and their like grow by 64 from" in str(less)
    # In tiles that are larger than what is executed more are computed than the reference needs.
    assert computes_fewer(kernel(8 * _MIB), kernel(4096 * _MIB), reference) is None
    # The exponential of a sum is a product of exponentials, of which there are as many as rows.
    assert computes_fewer(kernel(1024), kernel(64 * 1024), reference) is None
