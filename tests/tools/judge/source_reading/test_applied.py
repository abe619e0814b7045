"""A name of the file for an autograd function's `apply` is read as the function is."""

from __future__ import annotations

import pytest

from tests.tools.judge.source_reading.test_source_reading import codes, module

FUNCTION = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, table=None):
        {}
        return x * 2.0

    @staticmethod
    def backward(ctx, given):
        return given * 2.0, None


KEPT = [torch.zeros(4)]
{}
"""
BY_NAME = "twice = Twice.apply"


def _codes(body: str, inside: str = "pass", bound: str = BY_NAME) -> set[str]:
    return codes(module(body, top=FUNCTION.format(inside, bound)))


def test_a_name_for_apply_keeps_no_state() -> None:
    assert _codes("x = twice(x)") == _codes("x = Twice.apply(x)") == set()


@pytest.mark.parametrize(
    ("given", "inside"),
    [
        ("x, KEPT", "table.append(x)"),
        ("x, KEPT[0]", "table.add_(1.0)"),
        ("x, table=KEPT", "table[0] = x"),
        ("x", "KEPT.append(x)"),
    ],
)
def test_what_it_does_to_what_it_is_given_is_named_by_either_name(given: str, inside: str) -> None:
    named = _codes(f"x = twice({given})", inside)
    assert "keeps_state" in named
    assert named == _codes(f"x = Twice.apply({given})", inside)


@pytest.mark.parametrize(
    "bound",
    [
        "twice = Twice.apply\ntwice = KEPT.append",
        "twice = Twice.apply\ndef other():\n    global twice\n    twice = KEPT.append",
        "twice = KEPT.append",
        "twice: object = Twice.apply",
        "twice = Twice.apply if KEPT else None",
    ],
)
def test_a_name_that_may_stand_for_something_else_is_named(bound: str) -> None:
    assert "keeps_state" in _codes("x = twice(x)", bound=bound)
