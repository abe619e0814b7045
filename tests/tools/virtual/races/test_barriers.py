"""Ways through a kernel's PTX from one access to another, with and without a barrier."""

from __future__ import annotations

import pytest

from kernelagent.tools.virtual.compiled.barriers import Barriers
from kernelagent.tools.virtual.executor.source import FILE_NAME

LOAD, STORE = ("load", 5), ("store", 6)
HEAD = f'.file 1 "{FILE_NAME}"\n.file 2 "standard.py"\n'
LOADS = "\t.loc\t1 5 9\n\t@%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];\n"
STORES = "\t.loc\t1 6 9\n\t@%p1 st.global.b32 [ %rd6 + 0 ], { %rd5 };\n"
OF_A_SUM = "\t.loc\t2 314 12, function_name $L__info_string0, inlined_at 1 5 42\n\tbar.sync \t0;\n"
EXCHANGE = "\tshfl.sync.bfly.b32 \t%r25, %r24, 16, 31, -1;\n"
AROUND = "\t@%p2 bra \t$L__BB0_2;\n"
THERE = "$L__BB0_2:\n"
BACK = "\t@%p2 bra \t$L__BB0_1;\n"
BEGIN = "$L__BB0_1:\n"


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        (LOADS + STORES, True),
        (LOADS + OF_A_SUM + STORES, False),
        (LOADS + EXCHANGE + STORES, True),
        (LOADS + AROUND + OF_A_SUM + THERE + STORES, True),
        (LOADS + AROUND + THERE + OF_A_SUM + STORES, False),
        (LOADS + "\tbra.uni \t$L__BB0_2;\n" + OF_A_SUM + THERE + STORES, True),
        (STORES + LOADS, False),
        (BEGIN + STORES + LOADS + BACK, True),
        (BEGIN + STORES + LOADS + OF_A_SUM + BACK, False),
        (LOADS + "\tret;\n" + STORES, False),
        (STORES, True),
    ],
    ids=[
        "nothing between", "a barrier", "an exchange within a warp", "a barrier that some go around",
        "a barrier behind the branch", "a jump over the barrier", "the other way", "in the next round",
        "a barrier in the round", "behind the end", "no such load",
    ],
)  # fmt: skip
def test_a_barrier_counts_where_every_way_passes_it(code, missing):
    assert Barriers(HEAD + code).missing(LOAD, STORE) is missing


@pytest.mark.parametrize("between", ["", OF_A_SUM], ids=["nothing between", "a barrier"])
def test_an_atomic_that_adds_nothing_is_a_load_in_the_code(between):
    reads = "\t.loc\t1 6 9\n\tld.global.gpu.acquire.b32 %r2, [%rd1];\n"
    code = Barriers(HEAD + LOADS + between + reads)
    assert code.missing(LOAD, ("atomic", 6)) is (not between)


def test_what_lanes_of_a_warp_exchange_orders_a_program_of_one_warp():
    assert not Barriers(HEAD + LOADS + EXCHANGE + STORES, num_warps=1).missing(LOAD, STORE)
    assert not Barriers(HEAD + LOADS + EXCHANGE + STORES).missing(LOAD, STORE, of_warps=False)


def test_a_barrier_of_one_block_keeps_no_cluster():
    code = HEAD + LOADS + OF_A_SUM + STORES
    assert Barriers(code, num_ctas=2).missing(LOAD, STORE)
    code = code.replace("bar.sync \t0", "barrier.cluster.wait.aligned")
    assert not Barriers(code, num_ctas=2).missing(LOAD, STORE)


def test_one_store_of_a_block_is_several_instructions_and_the_next_round_s_is_another():
    assert not Barriers(HEAD + STORES + STORES).missing(STORE, STORE)
    assert Barriers(HEAD + BEGIN + STORES + BACK).missing(STORE, STORE)
    assert not Barriers(HEAD + BEGIN + STORES + OF_A_SUM + BACK).missing(STORE, STORE)


def test_a_piece_of_assembly_stands_where_its_first_line_does():
    piece = (
        "\t// begin inline asm\n\t.loc\t1 5 9\n\tmov.u64 %rd17, 0x0;\n\t.loc\t1 9 13\n"
        "\t@%p4 ld.global.v2.b64 { %rd17, %rd18 }, [ %rd19 + 0 ];\n\t// end inline asm\n"
    )
    assert not Barriers(HEAD + piece + OF_A_SUM + STORES).missing(LOAD, STORE)
    assert Barriers(HEAD + piece + STORES).missing(LOAD, STORE)


COPIES = "\t.loc\t1 6 9\n\t@%p4 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd10, {%r10, %r12}], [%r11];\n"
ENDS = "\tcp.async.bulk.wait_group \t0;\n"
MAY_BE_READ = "\tcp.async.bulk.wait_group.read \t0;\n"


@pytest.mark.parametrize(
    ("code", "under_way"),
    [
        (COPIES + ENDS + OF_A_SUM + LOADS, False),
        (COPIES + OF_A_SUM + LOADS, True),
        (COPIES + MAY_BE_READ + OF_A_SUM + LOADS, True),
        (COPIES + OF_A_SUM + ENDS + LOADS, True),
        (BEGIN + LOADS + MAY_BE_READ + COPIES + BACK + ENDS + OF_A_SUM, True),
        (BEGIN + COPIES + BACK + ENDS + OF_A_SUM + LOADS, False),
        (LOADS, True),
    ],
    ids=[
        "waited for", "a barrier alone", "read out only", "no barrier behind", "in the next round", "behind the loop",
        "no such copy",
    ],
)  # fmt: skip
def test_a_copy_has_ended_behind_a_wait_for_its_end_and_a_barrier(code, under_way):
    assert Barriers(HEAD + code).under_way(6, LOAD) is under_way
