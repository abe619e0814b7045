"""All programs at once leave what one after the other leaves, bit for bit, and see what the watchers see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelagent.tools.judge.source_reading.installed import installed_triton, missing_from_language
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.batched.job import HowRun
from kernelagent.tools.virtual.compiled.code_regions import Regions
from kernelagent.tools.virtual.compiled.memory_operations import Threads
from kernelagent.tools.virtual.cost.traffic import TrafficCounter
from kernelagent.tools.virtual.executor.launch import Launch, MemoryFault
from kernelagent.tools.virtual.races.bounds import BoundsChecker
from kernelagent.tools.virtual.races.races import RaceChecker
from tests.lanes import crossed, examples
from tests.tools.virtual import batched_kernels as kernels
from tests.tools.virtual.arguments import tensor_argument

FLOAT, BF16, HALF, INT = torch.float32, torch.bfloat16, torch.float16, torch.int32
MODES = ("execute", "poison", "suppress")


class AllAlike(Threads):
    """Every access has its lanes in the same threads."""

    def spread(self, kind: Any, line: int | None, shape: tuple[int, ...]) -> str:
        return "alike"


ALL_ALIKE = AllAlike()


@pytest.fixture(scope="module")
def together() -> BatchedInterpreter:
    return BatchedInterpreter()


@pytest.fixture(scope="module")
def one_by_one() -> BatchedInterpreter:
    return BatchedInterpreter(most_together=0)


@dataclass(frozen=True)
class Seen:
    """What a launch left and what was noticed."""

    tensors: tuple[bytes, ...]
    fault: Any
    traffic: Any
    how: HowRun


def run(
    interpreter: BatchedInterpreter,
    kernel: Any,
    grid: tuple[int, ...],
    named: dict[str, Any],
    *,
    mode: Any = "execute",
    watched: bool = True,
) -> Seen:
    tensors = {n: v for n, v in named.items() if isinstance(v, torch.Tensor)}
    launch = Launch(
        index=0,
        kernel=kernel.fn.__name__,
        line=1,
        grid=(*grid, 1, 1)[:3],
        tensors=tuple(tensor_argument(name, value) for name, value in tensors.items()),
        scalars={},
        constexprs={n: v for n, v in named.items() if n.isupper()},
    )
    counter = TrafficCounter("sm_90")
    watchers = [BoundsChecker(), RaceChecker()] if watched else []
    # What an earlier launch changed at an address that a new tensor has again is not waited for.
    interpreter.run_as_compiled(Regions())
    interpreter.store_as(mode, one_value_each=watched)
    interpreter.spread_lanes(ALL_ALIKE)
    fault = traffic = None
    try:
        interpreter.run(kernel, named, launch, observers=[*watchers, counter])
        traffic = counter.result(launch)
    except MemoryFault as met:
        fault = (met.code, str(met), met.detail)
    except Exception as error:  # noqa: BLE001 - whatever the kernel raises
        fault = (type(error).__name__, str(error))
    left = tuple(v.contiguous().view(torch.uint8).numpy().tobytes() for v in tensors.values())
    return Seen(left, fault, traffic, interpreter.how)


def both(
    first: BatchedInterpreter, second: BatchedInterpreter, kernel: Any, grid: Any, **rest: Any
) -> tuple[Seen, Seen]:
    """On the same memory, put back in between."""
    named = rest.pop("named")
    before = {n: v.clone() for n, v in named.items() if isinstance(v, torch.Tensor)}
    seen = []
    for interpreter in (first, second):
        for name, value in before.items():
            named[name].copy_(value)
        seen.append(run(interpreter, kernel, grid, named, **rest))
    return seen[0], seen[1]


def values(*shape: int, dtype: torch.dtype = FLOAT, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return (torch.randn(*shape, generator=generator) * 2).to(dtype)


def whole(low: int, high: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(low, high, shape, generator=generator, dtype=INT)


def like(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x)


def _rows(kernel: Any, dtype: torch.dtype = FLOAT, *, size: int = 37, **more: Any) -> Any:
    x = values(20, size, dtype=dtype)
    return kernel, (20,), {"x": x, **more, "y": like(x), "n": size}


def _matmul(dtype: torch.dtype) -> Any:
    a, b = values(50, 40, dtype=dtype), values(40, 70, dtype=dtype)
    sizes = {"M": 50, "N": 70, "K": 40, "BM": 16, "BN": 32, "BK": 16, "GROUP": 3}
    return kernels.matmul, (12,), {"a": a, "b": b, "c": torch.zeros(50, 70, dtype=dtype), **sizes}


def _attention(dtype: torch.dtype) -> Any:
    q, k, v = (values(3, 70, 16, dtype=dtype, seed=seed) for seed in range(3))
    sizes = {"T": 70, "scale": 0.1, "BM": 16, "BN": 16, "D": 16}
    return kernels.attention, (5, 3), {"q": q, "k": k, "v": v, "o": like(q), **sizes}


def _blocks(kernel: Any, block: int, times: int = 1) -> Any:
    x = values(24, block * times)
    return kernel, (24,), {"x": x, "y": like(x), "BLOCK": block}


def _case(made: Any, **constants: Any) -> Any:
    kernel, grid, named = made
    order = [name for name in kernel.arg_names if name in {**named, **constants}]
    return kernel, grid, {name: {**named, **constants}[name] for name in order}


TOGETHER: dict[str, Callable[[], Any]] = {
    "softmax": lambda: _case(_rows(kernels.softmax), BLOCK=64),
    "softmax bf16": lambda: _case(_rows(kernels.softmax, BF16), BLOCK=64),
    "softmax fp16": lambda: _case(_rows(kernels.softmax, HALF), BLOCK=64),
    "layer norm": lambda: _case(_rows(kernels.layer_norm, w=values(37)), eps=1e-5, BLOCK=64),
    "layer norm bf16": lambda: _case(
        _rows(kernels.layer_norm, BF16, w=values(37, dtype=BF16)), eps=1e-5, BLOCK=64
    ),
    "matmul": lambda: _case(_matmul(FLOAT)),
    "matmul bf16": lambda: _case(_matmul(BF16)),
    "matmul fp16": lambda: _case(_matmul(HALF)),
    "attention": lambda: _case(_attention(FLOAT)),
    "attention bf16": lambda: _case(_attention(BF16)),
    "cross entropy with rows that return early": lambda: (
        kernels.cross_entropy,
        (20,),
        {
            "x": values(20, 37),
            "target": whole(-2, 37, 20),
            "out": torch.zeros(20),
            "n": 37,
            "BLOCK": 64,
        },
    ),
    "scan": lambda: _case(_rows(kernels.scan), REVERSE=False, BLOCK=64),
    "reversed scan bf16": lambda: _case(_rows(kernels.scan, BF16), REVERSE=True, BLOCK=64),
    "own combine functions": lambda: _blocks(kernels.own_combines, 32),
    "own combine functions of values and places": lambda: _blocks(
        kernels.own_combines_with_places, 32
    ),
    "branches and loops that differ": lambda: _case(
        _rows(kernels.divergent, lengths=whole(0, 8, 20)), BLOCK=64
    ),
    "a function that returns early": lambda: _case(
        _rows(kernels.called, flags=whole(-1, 2, 20)), BLOCK=64
    ),
    "counting loops": lambda: (
        kernels.counting_loop,
        (10,),
        {"x": values(5, 600), "y": torch.zeros(600), "rows": 5, "n": 600, "BLOCK": 64},
    ),
    "shapes": lambda: _blocks(kernels.shapes, 16, 4),
    "masks of one number": lambda: (
        kernels.masked_numbers,
        (20,),
        {"x": values(20), "y": torch.full((20,), -1.0), "n": 13},
    ),
    "sorting": lambda: _blocks(kernels.sorting, 16),
    "functions": lambda: _blocks(kernels.functions, 32),
    "in place": lambda: (kernels.in_place, (20,), {"x": values(317), "n": 317, "BLOCK": 16}),
    "descriptors": lambda: (
        kernels.described,
        (4, 3),
        {"x": values(50, 44), "y": torch.zeros(50, 44), "M": 50, "N": 44, "BM": 16, "BN": 16},
    ),
    "masks that differ": lambda: _case(_rows(kernels.flagged), BLOCK=64),
    "columns": lambda: (
        kernels.columns,
        (30,),
        {"x": values(20, 30), "y": torch.zeros(30, 20), "M": 20, "N": 30, "BM": 32},
    ),
    "atomic additions": lambda: _case(
        (kernels.add_up, (20,), {"x": values(20, 37), "y": torch.zeros(37), "n": 37}), BLOCK=64
    ),
    "whole numbers counted in several rounds": lambda: (
        kernels.counted_twice,
        (20,),
        {"x": whole(0, 9, 20, 37), "y": torch.zeros(10, dtype=INT), "n": 37, "BLOCK": 64},
    ),
    "atomic additions bf16": lambda: _case(
        (
            kernels.add_up,
            (20,),
            {"x": values(20, 37, dtype=BF16), "y": torch.zeros(37, dtype=BF16), "n": 37},
        ),
        BLOCK=64,
    ),
}


@pytest.mark.parametrize(("what", "mode"), crossed({n: n for n in TOGETHER}, {n: n for n in MODES}))
def test_programs_together_leave_and_show_what_they_do_one_by_one(one_by_one, together, what, mode):
    kernel, grid, named = TOGETHER[what]()
    alone, at_once = both(one_by_one, together, kernel, grid, named=named, mode=mode)
    assert at_once.tensors == alone.tensors
    assert at_once.fault is alone.fault is None
    assert at_once.traffic == alone.traffic
    assert at_once.how.alone == 0
    assert at_once.how.reasons == {}


HAS_BLOCK_POINTERS = "make_block_ptr" not in missing_from_language(installed_triton())
BLOCK_POINTERS: dict[str, Callable[[], Any]] = {
    "a matrix product": lambda: (
        kernels.by_block_pointers,
        (4, 3),
        {"a": values(50, 40), "b": values(40, 70), "c": torch.zeros(50, 70),
         "M": 50, "N": 70, "K": 40, "BM": 16, "BN": 32, "BK": 16},
    ),
    "programs that part": lambda: _case(
        _rows(kernels.block_pointers_that_part, lengths=whole(0, 8, 20)), BLOCK=64
    ),
}  # fmt: skip


@pytest.mark.skipif(
    not HAS_BLOCK_POINTERS,
    reason="Triton has had no block pointers since 3.9",
)
@pytest.mark.parametrize("what", BLOCK_POINTERS)
@pytest.mark.parametrize("mode", MODES)
def test_block_pointers_lead_programs_together_where_they_lead_them_one_by_one(
    one_by_one, together, what, mode
):
    kernel, grid, named = BLOCK_POINTERS[what]()
    alone, at_once = both(one_by_one, together, kernel, grid, named=named, mode=mode)
    assert at_once.tensors == alone.tensors
    assert at_once.fault is alone.fault is None
    assert at_once.traffic == alone.traffic
    assert at_once.how.reasons == {}


def test_programs_that_access_too_much_to_be_kept_run_a_few_at_a_time(one_by_one):
    kernel, grid, named = TOGETHER["softmax"]()
    few = BatchedInterpreter(most_runs=6)
    alone, at_once = both(one_by_one, few, kernel, grid, named=named)
    assert at_once.tensors == alone.tensors
    assert at_once.traffic == alone.traffic
    assert at_once.how.alone == 0
    # A program reads one row and writes one: three programs access six.
    assert 1 <= at_once.how.at_a_time <= 3


@pytest.mark.parametrize("in_place", [False, True])
def test_loads_that_are_fetched_ahead_run_together_unless_they_meet_a_store_before_them(
    one_by_one, together, in_place
):
    first = kernels.running.fn.__code__.co_firstlineno
    loop = first + 3
    x = values(20, 80)
    named = {"x": x, "y": x if in_place else like(x), "n": 80, "ROUNDS": 3, "BLOCK": 16}
    for interpreter in (one_by_one, together):
        interpreter.fetch_ahead({loop + 1: (range(loop, loop + 3),)})
    try:
        alone, at_once = both(one_by_one, together, kernels.running, (20,), named=named)
    finally:
        for interpreter in (one_by_one, together):
            interpreter.fetch_ahead({})
    assert at_once.tensors == alone.tensors
    assert at_once.fault == alone.fault
    # Whether the load is one of those ahead is the one-by-one interpreter's to say.
    late = "a load that is fetched ahead may come before a store of its loop"
    assert at_once.how.reasons == ({late: 20} if in_place else {})


def _adding_twice() -> Any:
    return kernels.twice_added, (20,), {"x": values(20, 37), "y": torch.zeros(37), "n": 37,
                                        "BLOCK": 64}  # fmt: skip


ORDERED: dict[str, Callable[[], Any]] = {
    "a sum in several rounds": _adding_twice,
    "tickets": lambda: (
        kernels.tickets,
        (20,),
        {"x": values(20, 37), "y": torch.zeros(20, 37), "counter": torch.zeros(1, dtype=INT),
         "n": 37, "BLOCK": 64},
    ),
    "the last program sums": lambda: (
        kernels.last_one_sums,
        (20,),
        {"x": values(20, 37), "part": torch.zeros(20), "y": torch.zeros(1),
         "counter": torch.zeros(1, dtype=INT), "n": 37, "BLOCK": 64},
    ),
    "a lock": lambda: (
        kernels.locked,
        (20,),
        {"x": values(20, 37), "y": torch.zeros(1), "lock": torch.zeros(1, dtype=INT), "n": 37},
    ),
    "atomics of several kinds": lambda: (
        kernels.mixed_atomics,
        (20,),
        {"x": whole(-9, 9, 20, 37), "y": torch.zeros(80, dtype=INT), "n": 37, "BLOCK": 64},
    ),
    "a race": lambda: _case((kernels.racing, (20,), {"x": values(20, 37), "y": torch.zeros(37),
                                                     "n": 37}), BLOCK=64),
    "programs that agree": lambda: (
        kernels.agreeing, (20,), {"x": values(64), "y": torch.zeros(64), "BLOCK": 64}),
    "programs that overlap": lambda: (
        kernels.overlapping,
        (20,),
        {"x": values(20, 64), "y": torch.zeros(700), "n": 64, "BLOCK": 64},
    ),
    "an access far out of bounds": lambda: (
        kernels.far_away,
        (20,),
        {"x": values(20, 37), "y": torch.zeros(20, 37), "n": 37, "wild": 13, "BLOCK": 64},
    ),
    "lanes that disagree": lambda: (
        kernels.torn, (20,), {"x": values(64), "y": torch.zeros(20, 64), "BLOCK": 64}),
    "printing": lambda: (kernels.printing, (20,), {"x": values(20), "y": torch.zeros(20)}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("what", "mode", "size"),
    crossed(
        {n: n for n in ORDERED},
        {n: n for n in ("execute", "poison")},
        {str(n): n for n in (1, 3, 64)},
    ),
)
def test_where_the_order_of_programs_shows_the_outcome_and_the_fault_are_the_reference_s(
    one_by_one, what, mode, size
):
    kernel, grid, named = ORDERED[what]()
    alone, at_once = both(
        one_by_one, BatchedInterpreter(most_together=size), kernel, grid, named=named, mode=mode
    )
    assert at_once.tensors == alone.tensors
    assert at_once.fault == alone.fault
    if mode == "execute":
        # Nobody asks what a poisoned launch takes; it runs programs together that wait for each other here.
        assert at_once.traffic == alone.traffic


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("a lock", "compare-and-swap shows the programs' order"),
        ("printing", "programs print one after the other"),
        ("a sum in several rounds", "several programs change the same place"),
        ("the last program sums", "a program reads what another program of the launch changes"),
    ],
)
def test_programs_that_are_run_one_by_one_are_counted_with_the_reason(what, why):
    kernel, grid, named = ORDERED[what]()
    seen = run(BatchedInterpreter(), kernel, grid, named)
    assert seen.how.reasons == {why: 20}
    assert seen.how.alone == 20
    assert seen.how.together == 0


@pytest.mark.long
@settings(deadline=None, max_examples=examples(25))
@given(
    what=st.sampled_from(["softmax", "divergent", "matmul", "add_up", "flagged", "attention"]),
    dtype=st.sampled_from([FLOAT, BF16, HALF]),
    size=st.integers(1, 70),
    programs=st.integers(1, 40),
    chunk=st.integers(1, 50),
    seed=st.integers(0, 1000),
)
def test_any_shape_in_any_chunks_gives_the_same_bits(
    one_by_one, what, dtype, size, programs, chunk, seed
):
    kernel = getattr(kernels, what)
    x = values(programs, size, dtype=dtype, seed=seed)
    grid: tuple[int, ...] = (programs,)
    named: dict[str, Any]
    if what == "matmul":
        b = values(size, 40, dtype=dtype, seed=seed)
        c = torch.zeros(programs, 40, dtype=dtype)
        named = {"a": x, "b": b, "c": c, "M": programs, "N": 40, "K": size}
        named |= {"BM": 16, "BN": 16, "BK": 16, "GROUP": 2}
        grid = (-(-programs // 16) * 3,)
    elif what == "attention":
        q = values(programs, size, 16, dtype=dtype, seed=seed)
        named = {"q": q, "k": q.clone(), "v": q.clone(), "o": like(q), "T": size, "scale": 0.2}
        named |= {"BM": 16, "BN": 32, "D": 16}
        grid = (-(-size // 16), programs)
    elif what == "divergent":
        lengths = whole(0, 6, programs)
        named = {"x": x.float(), "y": torch.zeros(programs, size), "lengths": lengths, "n": size}
        named["BLOCK"] = 128
    else:
        y = torch.zeros(size, dtype=dtype) if what == "add_up" else like(x)
        named = {"x": x, "y": y, "n": size, "BLOCK": 128}
    alone, at_once = both(
        one_by_one, BatchedInterpreter(most_together=chunk), kernel, grid, named=named
    )
    assert at_once.tensors == alone.tensors
    assert at_once.fault == alone.fault
    assert at_once.traffic == alone.traffic


def test_a_running_sum_of_a_whole_row_has_the_error_of_a_tree(together):
    x = values(1, 32768)
    y = like(x)
    run(together, kernels.scan, (1,), {"x": x, "y": y, "n": 32768, "REVERSE": False,
                                       "BLOCK": 32768})  # fmt: skip
    assert float((y.double() - x.double().cumsum(1)).abs().max()) < 0.005


@pytest.mark.long
def test_traffic_is_the_same_when_the_cache_overflows(one_by_one, together):
    x = values(150, 60000)
    named = {"x": x, "y": like(x), "n": 60000, "BLOCK": 65536}
    alone, at_once = both(one_by_one, together, kernels.softmax, (150,), named=named)
    assert at_once.traffic == alone.traffic
    assert at_once.traffic.dram_store_bytes > 0
    assert at_once.tensors == alone.tensors


@pytest.mark.parametrize(
    ("precision", "slots"), [("tf32", 0), ("ieee", 0), ("tf32x3", 6), ("bf16x3", 8)]
)
def test_what_splits_the_factors_of_an_fp32_product_is_counted(
    together: BatchedInterpreter, one_by_one: BatchedInterpreter, precision: str, slots: int
) -> None:
    a, b = values(48, 32), values(32, 32)
    named = {"a": a, "b": b, "c": torch.zeros(48, 32), "PRECISION": precision}
    seen = both(together, one_by_one, kernels.one_product, (3,), named=named)
    # Three programs, each with a tile of 16 x 32 and an inner dimension of 32.
    expected = 3 * (slots * (16 + 32) * 32 + 3 * 16 * 32) if slots else 0
    assert [item.traffic.split_slots for item in seen] == [expected, expected]
