"""Kernel arguments and constants on their way to the executor, which runs nothing of a candidate's."""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

import pytest

from kernelagent.tools.virtual.device.codec import (
    NotEncodable,
    decode,
    decode_types,
    encode,
    encode_types,
    fields_in,
)


class Vector(NamedTuple):
    ptr: str
    n: int = 7


Pair = namedtuple("Pair", "left right")


class Counting(namedtuple("Counting", "n")):
    def __new__(cls, n):
        return super().__new__(cls, n + 1)


def test_a_signature_keeps_the_names_of_nested_fields():
    kinds = decode_types(encode_types(Pair(Vector("*fp32", "i32"), ("i32", "fp32"))))
    assert kinds.left.ptr == "*fp32"
    assert kinds.right == ("i32", "fp32")
    assert not hasattr(kinds.right, "_fields")


def test_constants_keep_the_names_of_their_fields():
    value = decode(encode(Pair(1, Vector("a", 2.5))), None)
    assert value.right.n == 2.5


def test_the_names_of_all_fields_are_found():
    told = [encode(Pair(1, Vector("a", 2))), {"x": encode_types(Vector("*fp32", "i32"))}]
    assert set(fields_in(told)) == {"left", "right", "ptr", "n"}


def test_a_class_of_named_tuples_is_made_anew_with_its_defaults():
    made = decode(encode(Vector), None)
    assert made("p") == ("p", 7)
    assert made is not Vector


def test_a_class_that_does_more_than_hold_its_fields_stays_behind():
    with pytest.raises(NotEncodable):
        encode(Counting)


@pytest.mark.parametrize("name", ["__class__", "a b", "a=1, *b", "class", ""])
def test_what_is_no_name_of_a_field_is_refused(name):
    with pytest.raises(ValueError, match="names"):
        decode_types({"fields": [name], "items": ["i32"]})
