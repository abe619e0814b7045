"""Which numbers of elements a written forward counts."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.models.compiler.module.limits import largest


def test_of_multiples_of_the_same_sizes_the_largest_is_counted() -> None:
    counts = ["32 * rows * cols", "rows * cols * 64", "16 * cols * rows", "rows * rows"]
    assert largest(counts) == ["rows * cols * 64", "rows * rows"]


def test_what_another_holds_anyway_is_not_counted() -> None:
    assert largest(["rows + 2", "8 * rows * cols", "rows * cols"]) == ["8 * rows * cols"]
    assert largest(["rows + 1", "rows * cols"]) == ["rows + 1", "rows * cols"]
    assert largest(["rows", "rows * cols"]) == ["rows * cols"]


def test_of_slices_of_a_concatenation_the_whole_is_counted() -> None:
    half = "(((rows - 1) // 4 + 1) // 2)"
    slices = [f"32 * (5 * batch - {n}) * {half} * {half}" for n in range(1, 5)]
    assert largest([*slices, f"160 * batch * {half} * {half}"]) == [
        f"160 * batch * {half} * {half}"
    ]


def test_what_may_be_below_zero_is_compared_with_nothing() -> None:
    counts = ["batch * ((rows - 9) // 2 + 5)", "4 * batch"]
    assert largest(counts) == counts


_PARTS = st.sampled_from(
    ["rows", "cols", "(rows - 1)", "(1 + cols // 2)", "((rows - 1) // 4 + 1)", "(rows // 3)", "7"]
)


@pytest.mark.long
@given(
    st.lists(st.lists(_PARTS, min_size=1, max_size=3).map(" * ".join), min_size=2, max_size=6),
    st.integers(1, 40),
    st.integers(1, 40),
)
def test_none_is_larger_than_all_that_are_counted(texts: list[str], rows: int, cols: int) -> None:
    sizes = {"rows": rows, "cols": cols}
    assert max(eval(text, {}, sizes) for text in texts) == max(
        eval(text, {}, sizes) for text in largest(texts)
    )


def test_a_hundred_of_a_network_s_are_told_apart_at_once() -> None:
    halved = [f"((rows - 1) // {2**n} + 1) * ((cols - 1) // {2**n} + 1)" for n in range(1, 6)]
    counts = [f"2 * {channels} * {size}" for size in halved for channels in range(32, 52)]
    began = process_time()
    assert len(largest(counts)) == len(halved)
    assert process_time() - began < 5
