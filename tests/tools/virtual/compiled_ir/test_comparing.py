from __future__ import annotations

import numpy as np

from kernelagent.tools.virtual.compiled_ir.comparing import compare
from kernelagent.tools.virtual.compiled_ir.memory import Stored

WHERE = "#loc1"


def compared(made, known, element="f32", *, stores=None, halves=False):
    width = made.itemsize
    places = np.arange(made.size if stores is None else stores) * width
    stored = [Stored(places, element, WHERE)]
    return compare(made.view(np.uint8), known.view(np.uint8), stored, halves=halves)


def floats(*values):
    return np.array(values, np.float32)


def test_a_sum_in_another_order_is_no_difference():
    outcome = compared(floats(100.0, 1e-3), floats(100.0001, 1.1e-3))
    assert outcome.difference is None
    assert outcome.rounded is None


def test_another_value_is_a_difference_with_its_place():
    difference = compared(floats(1, 2, 3), floats(1, 2, 6)).difference
    assert difference is not None
    assert (difference.place, difference.compiled, difference.interpreted) == (8, 3.0, 6.0)
    assert difference.location == WHERE


def test_what_16_bit_numbers_may_explain_is_told_and_no_difference():
    one, other = floats(1.0, 2.0), floats(1.0, 2.02)
    assert compared(one, other).difference is not None
    outcome = compared(one, other, halves=True)
    assert outcome.difference is None
    assert outcome.rounded is not None
    assert outcome.rounded.place == 4


def test_nan_is_nan_and_nothing_else():
    nan = float("nan")
    assert compared(floats(nan, 1), floats(nan, 1)).difference is None
    assert compared(floats(nan, 1), floats(0, 1)).difference is not None
    assert compared(floats(float("inf"), 1), floats(3e38, 1)).difference is not None


def test_integers_are_equal_or_differ():
    one, other = np.array([1, 1000], np.int32), np.array([1, 1001], np.int32)
    assert compared(one, other, "i32").difference is not None


def test_what_only_one_of_both_stores_is_a_difference():
    difference = compared(floats(1, 0), floats(1, 5), stores=1).difference
    assert difference is not None
    assert (difference.place - difference.place % 4, difference.location) == (4, None)
