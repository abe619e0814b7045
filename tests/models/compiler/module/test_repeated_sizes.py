"""Sums of sizes that stand in several places get a name."""

from __future__ import annotations

from kernelagent.models.compiler.module.repeated_sizes import named_once

SIZES = {"a", "b", "c", "d", "h"}


def test_a_sum_that_stands_twice_is_computed_once_before_its_first_use() -> None:
    lines = [
        "first = torch.empty((a + b + c, h))",
        "second = torch.empty((h * c + h * a + h * b,))",
        "kernel[(b + a + c,)](first, second)",
    ]
    assert named_once(lines, SIZES, ()) == [
        "channels = a + b + c",
        "first = torch.empty((channels, h))",
        "second = torch.empty((h * channels,))",
        "kernel[(channels,)](first, second)",
    ]


def test_a_longer_sum_is_made_of_a_shorter_one_and_names_come_in_order() -> None:
    lines = ["f(a + b + c)", "g(a + b + c + d)", "f(a + b + c)", "g(a + b + c + d)"]
    assert named_once(lines, SIZES, ("channels",)) == [
        "channels_2 = a + b + c",
        "f(channels_2)",
        "channels_3 = channels_2 + d",
        "g(channels_3)",
        "f(channels_2)",
        "g(channels_3)",
    ]


def test_lines_without_such_a_sum_stay_as_they_are_written() -> None:
    lines = ["if a % 8:", "    raise ValueError('a')", "kernel[(a + b,)](x, a + b)", "g(x + y + z)"]
    assert named_once(lines, SIZES, ()) == lines


def test_a_part_of_a_sum_that_has_a_name_needs_none() -> None:
    lines = ["f(d + a + b + c)", "g(a + b + c + d)", "g(a + b + c + d)"]
    assert named_once(lines, SIZES, ()) == [
        "channels = d + a + b + c",
        "f(channels)",
        "g(channels)",
        "g(channels)",
    ]
