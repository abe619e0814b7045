from __future__ import annotations

import pytest

from kernelagent.tools.virtual.compiled_ir.reading import read_module
from kernelagent.tools.virtual.compiled_ir.types import read_type
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown

TEXT = """
#loc = loc("/a folder (1)/candidate.py":8:1)
#loc1 = loc(unknown)
#loc2 = loc("/a folder (1)/candidate.py":9:11)
#loc3 = loc("standard.py":287:12)
#loc4 = loc("total"(#loc2))
#loc5 = loc(callsite(#loc3 at #loc4))
module {
  tt.func public @k(%x_ptr: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x_ptr"(#loc)), %n: i32 loc("n"(#loc))) attributes {noinline = false} {
    %v = tt.load %x_ptr {cachePolicy = #tt.cache_policy<cache_modifier = cg, eviction_policy = evict_normal>} : !tt.ptr<f32> loc(#loc4)
    %w = arith.sitofp %n : i32 to f32 loc(#loc5)
    %d:2 = "tt.reduce"(%v, %w) <{axis = 0 : i32}> ({
    ^bb0(%a: f32 loc(callsite(#loc1 at #loc4)), %b: f32 loc(unknown), %c: f32 loc(unknown), %e: f32 loc(unknown)):
      tt.reduce.return %a, %b : f32, f32 loc(#loc5)
    }) : (tensor<4xf32>, tensor<4xf32>) -> (f32, f32) loc(#loc5)
    tt.print " x: {" {hex = false, isSigned = array<i32: 0>} : %v : f32 loc(#loc)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
"""


def operations():
    return read_module(TEXT).entry.blocks[0].operations


def test_operations_have_names_operands_and_types():
    load, convert, reduce, show, _ = operations()
    assert (load.name, load.operands, load.results) == ("tt.load", ("%x_ptr",), ("%v",))
    assert load.result_types[0].element == "f32"
    assert convert.result_types[0].element == "f32"
    assert reduce.results == ("%d#0", "%d#1")
    assert [kind.element for kind in reduce.result_types] == ["f32", "f32"]
    assert [name for name, _ in reduce.regions[0][0].arguments] == ["%a", "%b", "%c", "%e"]
    assert show.name == "tt.print"


def test_a_place_leads_to_lines_from_the_innermost_call_outwards():
    module, convert = read_module(TEXT), operations()[1]
    callers = list(module.callers(convert.location))
    assert callers == [("standard.py", 287), ("/a folder (1)/candidate.py", 9)]


def test_types_are_read_with_their_shapes_and_what_they_point_at():
    block = read_type("tensor<16x32x!tt.ptr<bf16>>")
    assert (block.shape, block.element, block.pointee) == ((16, 32), "ptr", "bf16")
    described = read_type("!tt.tensordesc<16x64xsi32>")
    assert (described.shape, described.element, described.is_descriptor) == ((16, 64), "i32", True)
    assert read_type("!tt.ptr<!tt.ptr<f32>>").pointee == "ptr"


def test_a_text_that_breaks_off_is_not_read():
    with pytest.raises(Unknown):
        read_module(TEXT.partition("%d:2")[0])
