"""Which numbers of elements a written forward counts."""

from __future__ import annotations

from time import process_time

from kernelagent.models.compiler.module.limits import largest


def test_of_multiples_of_the_same_sizes_the_largest_is_counted() -> None:
    counts = ["32 * rows * cols", "rows * cols * 64", "16 * cols * rows", "rows * rows"]
    assert largest(counts) == ["rows * cols * 64", "rows * rows"]


def test_what_another_holds_anyway_is_not_counted() -> None:
    assert largest(["rows + 1", "8 * rows * cols", "rows * cols"]) == [
        "rows + 1",
        "8 * rows * cols",
    ]
    assert largest(["rows", "rows * cols"]) == ["rows * cols"]


def test_a_hundred_of_a_network_s_are_told_apart_at_once() -> None:
    halved = [f"((rows - 1) // {2**n} + 1) * ((cols - 1) // {2**n} + 1)" for n in range(1, 6)]
    counts = [f"2 * {channels} * {size}" for size in halved for channels in range(32, 52)]
    began = process_time()
    assert len(largest(counts)) == len(halved)
    assert process_time() - began < 5
