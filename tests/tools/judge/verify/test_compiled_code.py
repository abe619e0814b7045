from __future__ import annotations

from kernelagent.tools.judge.verify.beyond.compiled_code import CompiledCode


def told(*rows, smaller=True):
    seen = CompiledCode()
    seen.note(rows)
    return {item.code: item.message for item in seen.disclosures(smaller=smaller)}


def test_kernels_that_were_compared_are_not_told_of():
    assert told({"kernel": "k", "compared": True}, {"kernel": "never launched as it is"}) == {}


def test_a_kernel_that_was_never_compared_is_told_of_with_the_reason():
    later = {"kernel": "k", "compared": True}
    assert told({"kernel": "k", "not_compared": "its tensors are large"}, later) == {}
    message = told({"kernel": "k", "not_compared": "its tensors are large"})[
        "compiled_not_compared"
    ]
    assert "`k` (its tensors are large)" in message


def test_a_kernel_that_rounds_elsewhere_is_told_of_once():
    row = {
        "kernel": "k",
        "compared": True,
        "rounds_otherwise": "kernel `k`: a GPU rounds elsewhere",
    }
    assert told(row, row) == {"compiled_rounds": "kernel `k`: a GPU rounds elsewhere"}


def test_what_only_larger_sizes_show_is_told_where_they_were_not_executed():
    row = {"kernel": "k", "compared": True, "float_places": "12", "whole_sums": True}
    messages = told(row, row)
    assert "`k` (line 12) computes places" in messages["places_by_floats"]
    assert "`k` adds up whole numbers" in messages["whole_sums_in_floats"]
    assert told(row, smaller=False) == {}
