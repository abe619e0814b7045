from __future__ import annotations

import pytest

from kernelagent.tools.judge.workbench.axes import (
    NoSuchAxis,
    changed_lines,
    configurations,
    with_values,
)

SOURCE = """\
import triton
BLOCK = 64  # é
WIDE: tl.constexpr = tl.constexpr(16)

@triton.jit
def kernel(x, BLOCK: tl.constexpr):
    BLOCK = 3

def run(x, grid):
    ROWS = 8
    kernel[grid](x, BLOCK=BLOCK, SPLIT=2, num_stages=3)
    kernel[grid](
        x,
        BLOCK=BLOCK,
    )
    other[grid](x)
"""


def test_constants_keywords_and_options_are_exchanged_in_the_text() -> None:
    values = {"BLOCK": 128, "WIDE": 32, "ROWS": 4, "SPLIT": 1, "num_warps": 8}
    text = with_values(SOURCE, values)
    assert "BLOCK = 128  # é" in text
    assert "WIDE: tl.constexpr = tl.constexpr(32)" in text
    assert "    BLOCK = 3" in text, "a kernel's own variable is not the constant"
    assert "ROWS = 4" in text
    assert "kernel[grid](x, BLOCK=BLOCK, SPLIT=1, num_stages=3, num_warps=8)" in text
    assert text.count("num_warps=8") == 2
    assert "        BLOCK=BLOCK, num_warps=8,\n    )" in text
    assert "other[grid](x)" in text
    compile(text, "candidate.py", "exec")
    assert "line 2: BLOCK = 128  # é" in changed_lines(SOURCE, text)


def test_two_options_are_added_to_one_launch() -> None:
    text = with_values(SOURCE, {"num_warps": 8, "num_ctas": 2})
    assert "num_stages=3, num_warps=8, num_ctas=2)" in text
    compile(text, "candidate.py", "exec")


def test_one_kernel_of_several_is_addressed_by_its_name() -> None:
    source = SOURCE.replace(
        "def run(x", "@triton.jit\ndef second(x):\n    pass\n\ndef run(x"
    ).replace("other[grid](x)", "second[grid](x, num_stages=1)")
    text = with_values(source, {"second.num_stages": 4, "second.num_warps": 2, "num_ctas": 2})
    assert "second[grid](x, num_stages=4, num_ctas=2, num_warps=2)" in text
    assert "kernel[grid](x, BLOCK=BLOCK, SPLIT=2, num_stages=3, num_ctas=2)" in text
    both = with_values(
        source, {"second.num_stages": 4, "num_stages": 5, "second.num_warps": 2, "num_warps": 8}
    )
    assert "second[grid](x, num_stages=4, num_warps=2)" in both
    assert "SPLIT=2, num_stages=5, num_warps=8)" in both
    with pytest.raises(NoSuchAxis, match="no launch of `third`"):
        with_values(source, {"third.num_warps": 2})
    with pytest.raises(NoSuchAxis, match="has a number for `BLOCK`"):
        with_values(source, {"second.BLOCK": 2})


def test_name_that_nothing_has_is_refused() -> None:
    with pytest.raises(NoSuchAxis, match="`TILE` is neither a constant"):
        with_values(SOURCE, {"TILE": 1})


def test_combinations_are_all_of_them_and_not_too_many() -> None:
    assert configurations({"A": [1, 2], "B": [3, 3]}) == [{"A": 1, "B": 3}, {"A": 2, "B": 3}]
    for wrong in ({}, {"A": []}, {"A": [[1]]}, {"A": list(range(5)), "B": list(range(5))}):
        with pytest.raises(NoSuchAxis):
            configurations(wrong)
