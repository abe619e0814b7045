"""What is done in a shorter way comes out as Triton's own way does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.interpreter import shortcuts
from kernelagent.tools.virtual.interpreter.language import Language

SHAPES = st.lists(st.sampled_from([1, 2, 4]), max_size=3)
VALUES = st.recursive(
    st.one_of(
        st.integers(), st.floats(allow_nan=False), st.booleans(), st.none(), st.text()
    ).flatmap(lambda value: st.sampled_from([value, tl.constexpr(value)])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.tuples(inner, inner)),
    max_leaves=6,
)


def a_block(shape: list[int]) -> tl.tensor:
    data = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    kind = tl.block_type(tl.float32, shape) if shape else tl.float32
    return tl.tensor(stock.TensorHandle(data if shape else data.reshape(1), tl.float32), kind)


def outcome(semantic: TritonSemantic, left: list[int], right: list[int]) -> Any:
    """What broadcasting gives, or what it says of shapes that do not fit."""
    try:
        sides = semantic.broadcast_impl_value(a_block(left), a_block(right))
    except ValueError as refused:
        return str(refused)
    return [(str(item.type), item.handle.data.tolist()) for item in sides]


@pytest.mark.long
@given(left=SHAPES, right=SHAPES)
def test_operands_are_broadcast_as_triton_broadcasts_them(
    left: list[int], right: list[int]
) -> None:
    language = Language()
    with language.active():
        stock_semantic = TritonSemantic(language.builder)
        assert outcome(language.semantic, left, right) == outcome(stock_semantic, left, right)


@given(value=VALUES)
def test_constants_are_unwrapped_as_triton_unwraps_them(value: Any) -> None:
    slow = tl.core._unwrap_if_constexpr
    assert repr(shortcuts.unwrap_if_constexpr(slow)(value)) == repr(slow(value))


@pytest.mark.parametrize("other", [[1, 2], [1, 3], [1], [tl.constexpr(1), 2]])
def test_shapes_are_compared_as_triton_compares_them(other: list[Any]) -> None:
    slow = tl.tuple.__eq__
    left, right = tl.tuple([1, 2]), tl.tuple(other)
    assert bool(shortcuts.tuple_eq(slow)(left, right)) == bool(slow(left, right))
