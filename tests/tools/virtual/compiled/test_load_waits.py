"""How often machine code waits for its loads, on a few instructions."""

from __future__ import annotations

import pytest

from kernelagent.tools.virtual.compiled.load_waits import (
    LoadWaits,
    Step,
    load_waits,
    places_of_loads,
)

_CODE = {
    "LA": Step("LDG.E", " R2, desc[UR4][R10.64] ;", 7),
    "LB": Step("LDG.E", " R3, desc[UR4][R10.64+0x80] ;", 7),
    "UA": Step("FADD", " R5, R5, R2 ;", 8),
    "UB": Step("FADD", " R5, R5, R3 ;", 8),
    "ST": Step("STG.E", " desc[UR4][R12.64], R5 ;", 9),
    "BR": Step("BRA", " `(.L_x_1) ;", 8),
    "WIDE": Step("LDG.E.128", " R20, desc[UR4][R10.64] ;", 7),
    "UW": Step("FADD", " R5, R5, R23 ;", 8),
}


def waits(*names: str, loop: bool = True) -> LoadWaits:
    steps = [_CODE[name] for name in names]
    (only,) = load_waits(steps, [(0, len(steps) - 1)] if loop else [], {})
    return only


@pytest.mark.parametrize(
    ("names", "number"),
    [
        (("LA", "LB", "UA", "UB", "BR"), 1),
        (("LA", "UA", "LB", "UB", "BR"), 2),
        (("LA", "UA", "ST", "LB", "UB", "ST", "BR"), 2),
        (("UA", "LA", "UB", "LB", "BR"), 1),
        (("WIDE", "UW", "BR"), 1),
        (("WIDE", "UA", "BR"), 1),
    ],
)
def test_a_wait_is_counted_where_nothing_before_has_waited(names, number):
    assert sum(waits(*names).waits.values()) == number


def test_what_is_loaded_for_the_next_round_is_waited_for_in_it():
    assert waits("UA", "LA", "BR").waits == {"7": 1}
    assert waits("UA", "LA", "ST", loop=False).waits == {}


def test_bits_and_loads_are_those_of_one_round():
    found = waits("WIDE", "LA", "UW", "BR")
    assert (found.bits, found.loads) == ({"7": 160}, {"7": 2})


def test_a_load_belongs_to_the_innermost_loop():
    steps = [_CODE[name] for name in ("LB", "UB", "LA", "UA", "BR", "ST", "BR")]
    outer, inner = load_waits(steps, [(0, 6), (2, 4)], {})
    assert outer.bits == inner.bits == {"7": 32}


def test_lines_of_triton_s_assembly_lead_back_to_the_load():
    """LLVM says line 14 of the second instruction, where the load stands on line 13."""
    ptx = """
	.loc	1 13 9
	// begin inline asm
	.loc	1 13 9
	mov.u32 %r1, 0x0;
	.loc	1 14 9
	mov.u32 %r2, 0x0;
	@%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];
	// end inline asm
	.loc	1 14 9
	// begin inline asm
	.loc	1 14 9
	ld.global.L1::evict_last.v2.b32 { %r3, %r4 }, [ %rd1 + 0 ];
	// end inline asm
	.loc	1 20 5
	// begin inline asm
	.loc	1 20 5
	mov.u16 %rs1, 0x0;
	.loc	1 21 5
	ld.global.b16 { %rs1 }, [ %rd2 + 0 ];
	// end inline asm
"""
    assert places_of_loads(ptx) == {(14, 64): "13,14", (21, 16): "20"}
