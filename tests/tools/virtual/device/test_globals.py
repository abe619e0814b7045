"""What is told of the functions and values that a kernel's text names."""

from __future__ import annotations

import triton
import triton.language as tl

from kernelagent.tools.virtual.device.globals import constants_of, reached, texts_of

STEP = 3


@triton.constexpr_function
def factor(n):
    return n * STEP


def other(n):
    return n + STEP


bound_anew = triton.constexpr_function(other)


@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, factor(1) + bound_anew(2))


def test_functions_of_constants_are_told_by_the_name_and_the_line_that_they_have():
    told = constants_of(reached([kernel]))
    lines = {name: told[name]["function"] for name in ("factor", "bound_anew")}
    assert lines == {
        "factor": ["factor", factor.fn.__code__.co_firstlineno],
        "bound_anew": ["other", other.__code__.co_firstlineno],
    }


def test_what_a_function_of_constants_reads_and_how_it_is_written_is_told():
    functions = reached([kernel])
    assert constants_of(functions)["STEP"] == 3
    assert [text for name, _, text in texts_of(functions) if name == "factor"] == [
        "def factor(n):\n    return n * STEP\n"
    ]
