from __future__ import annotations

from itertools import product

import pytest

from tests.lanes import crossed, often


def short(parameters):
    return [row for row in parameters if not row.marks]


def test_of_all_combinations_each_value_is_tried_on_every_commit():
    sizes, kinds = {"one": 1, "two": 2, "three": 3}, {"row": "r", "column": "c"}
    parameters = crossed(sizes, kinds)
    assert [row.values for row in parameters] == list(product(sizes.values(), kinds.values()))
    assert parameters[0].id == "one-row"
    tried = short(parameters)
    assert len(tried) == len(sizes)
    assert {row.values[0] for row in tried} == set(sizes.values())
    assert {row.values[1] for row in tried} == set(kinds.values())


def test_cases_that_are_not_kept_are_in_the_long_lane():
    parameters = often({"a": 1, "b": 2}, ["b"])
    assert [row.values for row in short(parameters)] == [(2,)]
    assert [mark.name for mark in parameters[0].marks] == ["long"]


def test_a_case_that_is_kept_and_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="no such cases: c"):
        often({"a": 1}, ["c"])
