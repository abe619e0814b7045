"""What no judged call shows of a candidate's bounds: asked of a process that answers by what is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from kernelagent.tools.judge.verify.beyond.kernel_parts import KernelPartsNotShown
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.kept_calls import KeptCall
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.kernel_text.omissions import BOUND, ROUND, Omission

LATE, NEVER, ONCE = (
    Omission(ROUND, 4, "range(9)"),
    Omission(ROUND, 5, "range(26)"),
    Omission(BOUND, 6, "at < n"),
)
Answers = Callable[[int, frozenset[Omission]], float]


@dataclass
class Asked:
    """Answers the call of number `n` by a number that depends on what is left out."""

    answers: Answers
    met: tuple[Omission, ...]
    omitted: frozenset[Omission] = frozenset()
    calls: list[frozenset[Omission]] = field(default_factory=list)
    has_ended: bool = False
    holds: Any = None
    spoiled: bool = False
    """A call without a part has written to the weights."""

    def hold(self, weights: Mapping[str, torch.Tensor]) -> None:
        if self.holds is not weights:
            self.holds, self.spoiled = weights, False

    def still_holds(self, weights: Mapping[str, torch.Tensor]) -> None:
        self.holds = weights

    def take_launches(self) -> list[dict[str, Any]]:
        return []

    def command_executor(self, command: Mapping[str, Any]) -> Any:
        if command["kind"] == "omit":
            self.omitted = frozenset(Omission(*part) for part in command["omitted"] or ())
        return SimpleNamespace(header={"parts": [list(part) for part in self.met]})

    def call(self, arguments: int, step: None, most_s: float) -> Any:
        assert most_s <= (121 if self.omitted else 61)
        assert not self.spoiled
        self.calls.append(self.omitted)
        self.holds, self.spoiled = None, bool(self.omitted)
        value = torch.tensor([self.answers(arguments, self.omitted)])
        return SimpleNamespace(output=value, changed_arguments=None)


def calls(count: int) -> Any:
    weights = {"w": torch.zeros(1)}
    return [
        KeptCall("default", n, None, weights, leaves_state=False, natural=True)  # type: ignore[arg-type]
        for n in range(count)
    ]


def told(
    asked: Asked, count: int, seconds: float = 60.0, *, is_sample: bool = False
) -> dict[str, str]:
    findings = Findings()
    parts = KernelPartsNotShown(asked, findings, seconds, is_sample)  # type: ignore[arg-type]
    parts.of(calls(count))
    return {code: each.message for code, each in findings.disclosures.items()}


def answered(call: int, omitted: frozenset[Omission]) -> float:
    """The bound shows in every call, one of the loops in the seventh alone, the other in none."""
    return 1.0 + (ONCE in omitted) + (LATE in omitted and call == 6)


def test_what_no_call_shows_is_told_and_what_one_shows_is_not() -> None:
    asked = Asked(answered, (LATE, NEVER, ONCE))
    (message,) = told(asked, 10).values()
    assert "all of the 10 judged calls" in message
    assert "line 5 `range(26)` one round fewer" in message
    assert "range(9)" not in message
    assert "at < n" not in message


def test_what_is_left_is_left_out_together_and_shown_parts_no_more() -> None:
    asked = Asked(answered, (LATE, NEVER, ONCE))
    told(asked, 6)
    assert len(asked.calls) == 4 + 5 * 2
    assert asked.calls[-1] == {LATE, NEVER}


def test_where_all_parts_have_shown_a_few_calls_are_enough() -> None:
    asked = Asked(answered, (ONCE,))
    assert told(asked, 50) == {}
    assert len(asked.calls) == 2 + 2


def test_a_call_that_fails_without_a_part_shows_it() -> None:
    def answers(call: int, omitted: frozenset[Omission]) -> float:
        if omitted:
            raise Rejected("runtime_error", "an index is out of range")
        return 1.0

    assert told(Asked(answers, (NEVER,)), 10) == {}


def test_a_process_that_has_ended_shows_nothing_and_that_is_told() -> None:
    def answers(call: int, omitted: frozenset[Omission]) -> float:
        if omitted:
            asked.has_ended = True
            raise Rejected("timeout", "it does not end")
        return 1.0

    asked = Asked(answers, (NEVER,))
    assert list(told(asked, 10)) == ["kernel_parts_not_asked"]


def test_few_calls_for_lack_of_time_tell_nothing_but_that() -> None:
    asked = Asked(answered, (NEVER,))
    assert list(told(asked, 10, seconds=0.0)) == ["kernel_parts_not_asked"]
    # The winner of a turn is asked again.
    assert told(asked, 10, seconds=0.0, is_sample=True) == {}


def test_what_cannot_be_asked_refuses_nobody() -> None:
    class WithoutAnExecutor(Asked):
        def command_executor(self, command: Mapping[str, Any]) -> Any:
            raise Rejected("unverifiable", "the executor gave no answer")

    assert list(told(WithoutAnExecutor(answered, (NEVER,)), 10)) == ["kernel_parts_not_asked"]


def test_each_part_was_left_out_of_as_many_calls_as_are_told() -> None:
    def met_late(call: int, omitted: frozenset[Omission]) -> float:
        asked.met = (NEVER,) if call < 7 else (NEVER, LATE)
        return 1.0

    asked = Asked(met_late, (NEVER,))
    (message,) = told(asked, 10).values()
    assert "all of the 3 judged calls" in message
