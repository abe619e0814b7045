"""Long lines of what the policy writes are broken where a person would."""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.models.compiler.kernels.layout import folded

LONG = {
    "a call": "total = tl.sum(tl.where(col_mask & row_mask, scratch * ((x - mean) * rstd), 0), 1)[:, None]",
    "a sum of terms that nothing else opens": "slope = (libdevice.erf(value * 0.7071067811865476) + 1.0) * 0.5 + value * (tl.exp(value * value) * 0.3989422804014327)",
    "a product of factors": "t = tl.exp(x - row_max - log_out) * (scratch_2 + scratch_3 + scratch_4 + scratch_5 + scratch_6 + scratch_7)",
    "a sum in brackets within a call": "out = tl.load(out_ptr + (offsets % 16 + 16 * (offsets // size_1 % 24) + 384 * (offsets // 16 % size_0) + 384 * size_0 * (offsets // size_2)), mask=mask, other=0)",
    "a text of a sum": "raise ValueError('128 * ((width - 1) // 2 * ((height - 1) // 2) + (width - 1) // 2 + (height - 1) // 2) may be 2147483519 at most')",
    "what is returned": "return grad_input, grad_layer_0_weight, grad_layer_0_bias.view(256), grad_layer_2_weight, grad_layer_2_bias",
    "what is unpacked": "grad_input, grad_layer_0_weight, grad_layer_0_bias, grad_layer_2_weight, grad_layer_2_bias = ctx.saved_tensors",
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_a_long_line_becomes_short_ones_that_mean_the_same(name: str) -> None:
    line = f"    {LONG[name]}"
    shown = folded(line)
    assert name == "a text of a sum" or max(map(len, shown.splitlines())) <= 88
    around = "def function():\n{}"
    before, after = (ast.dump(ast.parse(around.format(text))) for text in (line, shown))
    assert before == after


TEXTS = st.text("abc,+-*/()[]{} '\"=", max_size=60)


@given(
    TEXTS, TEXTS, st.sampled_from(["raise ValueError({}, {})", "call({}) + {}", "return {}, {}"])
)
def test_commas_and_brackets_of_a_text_are_no_places_to_break_a_line(
    first: str, second: str, code: str
) -> None:
    line = "    " + code.format(repr(first), json.dumps(second))
    around = "def function():\n{}"
    before, after = (ast.dump(ast.parse(around.format(text))) for text in (line, folded(line)))
    assert before == after


def test_a_comment_stays_whole() -> None:
    line = f"    # what was kept (of x, y, {'and much more of them, ' * 4}and so on)"
    assert folded(line) == line


def test_a_short_line_stays_as_it_is() -> None:
    assert folded("    a, b = ctx.saved_tensors\n    return a + b") == (
        "    a, b = ctx.saved_tensors\n    return a + b"
    )
