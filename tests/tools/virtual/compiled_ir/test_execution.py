from __future__ import annotations

import numpy as np
import pytest

from kernelagent.tools.virtual.compiled_ir.execution import OutOfTime
from kernelagent.tools.virtual.compiled_ir.memory import OutsideStorages
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown
from tests.tools.virtual.compiled_ir.ir_programs import run

LOADED = """
    %i = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32> loc(#loc)
    %p = tt.splat %a : !tt.ptr<KIND> -> tensor<4x!tt.ptr<KIND>> loc(#loc)
    %q = tt.addptr %p, %i : tensor<4x!tt.ptr<KIND>>, tensor<4xi32> loc(#loc)
    %x = tt.load %q : tensor<4x!tt.ptr<KIND>> loc(#loc)
"""


def of_four(kind, lines):
    return LOADED.replace("KIND", kind) + lines


def test_a_block_is_loaded_computed_with_and_stored():
    values = np.array([1, 2, 3, 4], np.float32)
    run(
        of_four("f32", "%y = arith.addf %x, %x : tensor<4xf32> loc(#loc)\ntt.store %q, %y : tensor<4x!tt.ptr<f32>> loc(#loc)"),
        values,
    )  # fmt: skip
    assert values.tolist() == [2, 4, 6, 8]


def test_integers_are_divided_as_in_c():
    values = np.array([-7, 7, -8, 5], np.int32)
    run(
        of_four("i32", """
    %c = arith.constant dense<2> : tensor<4xi32> loc(#loc)
    %y = arith.divsi %x, %c : tensor<4xi32> loc(#loc)
    %r = arith.remsi %x, %c : tensor<4xi32> loc(#loc)
    %t = arith.constant dense<100> : tensor<4xi32> loc(#loc)
    %u = arith.muli %y, %t : tensor<4xi32> loc(#loc)
    %z = arith.addi %u, %r : tensor<4xi32> loc(#loc)
    tt.store %q, %z : tensor<4x!tt.ptr<i32>> loc(#loc)"""),
        values,
    )  # fmt: skip
    assert values.tolist() == [-301, 301, -400, 201]


def test_bf16_is_rounded_after_each_operation():
    values = np.full(4, 0x3F81, np.uint16)
    run(
        of_four("bf16", "%y = arith.mulf %x, %x : tensor<4xbf16> loc(#loc)\ntt.store %q, %y : tensor<4x!tt.ptr<bf16>> loc(#loc)"),
        values,
    )  # fmt: skip
    # 1.0078125 squared is 1.01568..., between 0x3F82 and 0x3F83.
    assert values.tolist() == [0x3F82] * 4


def test_a_loop_carries_values_and_a_branch_takes_one_way():
    values = np.array([0, 0], np.int32)
    run(
        """
    %c0 = arith.constant 0 : i32 loc(#loc)
    %c1 = arith.constant 1 : i32 loc(#loc)
    %c5 = arith.constant 5 : i32 loc(#loc)
    %s:2 = scf.for %i = %c0 to %c5 step %c1 iter_args(%m = %c0, %n = %c1) -> (i32, i32)  : i32 {
      %odd = arith.remsi %i, %c5 : i32 loc(#loc)
      %is = arith.cmpi sgt, %odd, %c1 : i32 loc(#loc)
      %more = scf.if %is -> (i32) {
        %t = arith.addi %m, %i : i32 loc(#loc)
        scf.yield %t : i32 loc(#loc)
      } else {
        scf.yield %m : i32 loc(#loc)
      } loc(#loc)
      %twice = arith.addi %n, %n : i32 loc(#loc)
      scf.yield %more, %twice : i32, i32 loc(#loc)
    } loc(#loc)
    tt.store %a, %s#0 : !tt.ptr<i32> loc(#loc)
    %next = tt.addptr %a, %c1 : !tt.ptr<i32>, i32 loc(#loc)
    tt.store %next, %s#1 : !tt.ptr<i32> loc(#loc)
""",
        values,
    )
    assert values.tolist() == [9, 32]


def test_a_waiting_loop_ends_when_its_condition_fails():
    values = np.array([1], np.int32)
    run(
        """
    %c3 = arith.constant 3 : i32 loc(#loc)
    %one = tt.load %a : !tt.ptr<i32> loc(#loc)
    %v = scf.while (%m = %one) : (i32) -> i32 {
      %small = arith.cmpi slt, %m, %c3 : i32 loc(#loc)
      scf.condition(%small) %m : i32 loc(#loc)
    } do {
    ^bb0(%m: i32 loc(#loc)):
      %t = arith.addi %m, %one : i32 loc(#loc)
      scf.yield %t : i32 loc(#loc)
    } loc(#loc)
    tt.store %a, %v : !tt.ptr<i32> loc(#loc)
""",
        values,
    )
    assert values.tolist() == [3]


def test_a_loop_without_end_runs_out_of_time():
    with pytest.raises(OutOfTime):
        run(
            """
    %true = arith.constant true loc(#loc)
    scf.while : () -> () {
      scf.condition(%true) loc(#loc)
    } do {
      scf.yield loc(#loc)
    } loc(#loc)
""",
            np.zeros(1, np.int32),
            until=0.01,
        )


def test_an_early_return_is_a_branch_between_blocks():
    values = np.array([0, 0, 0], np.int32)
    run(
        """
    %pid = tt.get_program_id x : i32 loc(#loc)
    %c1 = arith.constant 1 : i32 loc(#loc)
    %p = tt.addptr %a, %pid : !tt.ptr<i32>, i32 loc(#loc)
    %is = arith.cmpi eq, %pid, %c1 : i32 loc(#loc)
    cf.cond_br %is, ^bb1, ^bb2(%c1 : i32) loc(#loc)
  ^bb1:  // pred: ^bb0
    tt.return loc(#loc)
  ^bb2(%v: i32 loc(#loc)):  // pred: ^bb0
    tt.store %p, %v : !tt.ptr<i32> loc(#loc)
""",
        values,
        programs=3,
    )
    assert values.tolist() == [1, 0, 1]


def test_reductions_and_scans_use_the_kernels_own_function():
    values = np.array([1, 2, 3, 4], np.int32)
    run(
        of_four("i32", """
    %m:2 = "tt.reduce"(%x, %i) <{axis = 0 : i32}> ({
    ^bb0(%v: i32 loc(#loc), %j: i32 loc(#loc), %w: i32 loc(#loc), %k: i32 loc(#loc)):
      %gt = arith.cmpi sgt, %v, %w : i32 loc(#loc)
      %s = arith.select %gt, %v, %w : i32 loc(#loc)
      %t = arith.select %gt, %j, %k : i32 loc(#loc)
      tt.reduce.return %s, %t : i32, i32 loc(#loc)
    }) : (tensor<4xi32>, tensor<4xi32>) -> (i32, i32) loc(#loc)
    %c = "tt.scan"(%x) <{axis = 0 : i32, reverse = true}> ({
    ^bb0(%v: i32 loc(#loc), %w: i32 loc(#loc)):
      %s = arith.addi %v, %w : i32 loc(#loc)
      tt.scan.return %s : i32 loc(#loc)
    }) : (tensor<4xi32>) -> tensor<4xi32> loc(#loc)
    %n = tt.splat %m#1 : i32 -> tensor<4xi32> loc(#loc)
    %y = arith.muli %c, %n : tensor<4xi32> loc(#loc)
    tt.store %q, %y : tensor<4x!tt.ptr<i32>> loc(#loc)"""),
        values,
    )  # fmt: skip
    assert values.tolist() == [30, 27, 21, 12]


def test_of_equal_values_the_last_is_taken_where_the_function_leaves_it_open():
    values = np.array([0, 7, 7, 0], np.int32)
    run(
        of_four("i32", """
    %m:2 = "tt.reduce"(%x, %i) <{axis = 0 : i32}> ({
    ^bb0(%v: i32 loc(#loc), %j: i32 loc(#loc), %w: i32 loc(#loc), %k: i32 loc(#loc)):
      %gt = arith.cmpi sgt, %v, %w : i32 loc(#loc)
      %s = arith.select %gt, %v, %w : i32 loc(#loc)
      %t = arith.select %gt, %j, %k : i32 loc(#loc)
      tt.reduce.return %s, %t : i32, i32 loc(#loc)
    }) : (tensor<4xi32>, tensor<4xi32>) -> (i32, i32) loc(#loc)
    tt.store %a, %m#1 : !tt.ptr<i32> loc(#loc)"""),
        values,
    )  # fmt: skip
    assert values[0] == 2


def test_a_function_that_branches_on_elements_is_done_for_each():
    values = np.array([1, -2, 3, -4], np.float32)
    run(
        of_four("f32", """
    %z = arith.constant 0.000000e+00 : f32 loc(#loc)
    %y = "tt.map_elementwise"(%x) <{pack = 1 : i32}> ({
    ^bb0(%v: f32 loc(#loc)):
      %gt = arith.cmpf ogt, %v, %z : f32 loc(#loc)
      cf.cond_br %gt, ^bb2(%v : f32), ^bb1 loc(#loc)
    ^bb1:  // pred: ^bb0
      %t = arith.mulf %v, %v : f32 loc(#loc)
      cf.br ^bb2(%t : f32) loc(#loc)
    ^bb2(%u: f32 loc(unknown)):  // 2 preds: ^bb0, ^bb1
      tt.map_elementwise.return %u : f32 loc(#loc)
    }) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc)
    tt.store %q, %y : tensor<4x!tt.ptr<f32>> loc(#loc)"""),
        values,
    )  # fmt: skip
    assert values.tolist() == [1, 4, 3, 16]


def test_another_function_is_called_with_names_of_its_own():
    values = np.array([3], np.int32)
    run(
        """
    %x = tt.load %a : !tt.ptr<i32> loc(#loc)
    %y = tt.call @twice(%x) : (i32) -> i32 loc(#loc)
    %z = arith.addi %x, %y : i32 loc(#loc)
    tt.store %a, %z : !tt.ptr<i32> loc(#loc)
""",
        values,
        extra="""
  tt.func private @twice(%x: i32 loc(#loc)) -> i32 attributes {noinline = true} {
    %y = arith.addi %x, %x : i32 loc(#loc)
    tt.return %y : i32 loc(#loc)
  } loc(#loc)
""",
    )
    assert values.tolist() == [9]


def test_atomics_of_one_place_come_one_after_another():
    values = np.array([10, 0, 0, 0], np.int32)
    run(
        of_four("i32", """
    %m = arith.constant dense<true> : tensor<4xi1> loc(#loc)
    %o = arith.constant dense<1> : tensor<4xi32> loc(#loc)
    %old = tt.atomic_rmw add, acq_rel, gpu, %p, %o, %m : (tensor<4x!tt.ptr<i32>>, tensor<4xi32>, tensor<4xi1>) -> tensor<4xi32> loc(#loc)
    tt.store %q, %old : tensor<4x!tt.ptr<i32>> loc(#loc)"""),
        values,
    )  # fmt: skip
    assert values.tolist() == [10, 11, 12, 13]


def test_a_masked_load_touches_nothing_where_it_is_off_and_an_access_outside_is_told():
    body = """
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32> loc(#loc)
    %n = arith.constant dense<4> : tensor<8xi32> loc(#loc)
    %m = arith.cmpi slt, %i, %n : tensor<8xi32> loc(#loc)
    %p = tt.splat %a : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>> loc(#loc)
    %q = tt.addptr %p, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32> loc(#loc)
    %x = tt.load %q, %m, %i : tensor<8x!tt.ptr<i32>> loc(#loc)
    %y = arith.addi %x, %x : tensor<8xi32> loc(#loc)
    tt.store %q, %y, %m : tensor<8x!tt.ptr<i32>> loc(#loc)
"""
    values = np.array([1, 2, 3, 4], np.int32)
    run(body, values)
    assert values.tolist() == [2, 4, 6, 8]
    with pytest.raises(OutsideStorages):
        run(body.replace(", %m :", " :"), values)


def test_what_is_not_known_is_not_executed():
    with pytest.raises(Unknown, match=r"tt\.dance"):
        run("%x = tt.dance %a : !tt.ptr<i32> -> i32 loc(#loc)", np.zeros(1, np.int32))
    with pytest.raises(Unknown, match="places"):
        run(
            """
    %x = tt.load %a : !tt.ptr<i32> loc(#loc)
    %y = arith.shli %x, %x : i32 loc(#loc)
""",
            np.array([40], np.int32),
        )
