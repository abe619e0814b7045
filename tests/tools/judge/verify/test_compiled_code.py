from __future__ import annotations

from kernelagent.tools.judge.verify.beyond.compiled_code import CompiledCode


def told(*rows):
    seen = CompiledCode()
    seen.note(rows)
    return {item.code: item.message for item in seen.disclosures(smaller=True)}


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
