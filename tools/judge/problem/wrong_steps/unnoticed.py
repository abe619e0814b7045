"""Which steps of the reference could have been done wrong without a call's showing it.

Mutation testing, of the calls of a judging: a candidate that leaves out what no call depends on is accepted, whatever it
is compared with. Such a step is looked for further inputs (`search`), and told of where there are none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import process_time
from typing import Any

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.wrong_steps.changes import Change
from kernelagent.tools.judge.problem.wrong_steps.followed import (
    Step,
    WrongStep,
    look_at,
    with_wrong_step,
)
from kernelagent.tools.judge.problem.wrong_steps.noticed import differs

_MOST = 200
"""Ways to do a step wrong that are asked about; of a text with more, those of its first steps."""
_SHOWN = 4
"""Places, and ways to do the step at one of them wrong."""
_MOST_SLOW = 5
"""Of a reference of which no more forwards than this can be made in the first call nothing else is asked."""
_ENOUGH_CALLS = 10
_FIRST_PASS = 0.5
"""Of the seconds, at most so many go into the first call, in which nearly all are seen."""


@dataclass
class UnnoticedSteps:
    """Those that no call has shown so far; grows smaller call by call."""

    file: str | None
    """Of the forward; None: there is no text to follow."""
    most_seconds: float
    """Of processor time, for all calls."""
    worked: Callable[[], float] = process_time
    _left: list[WrongStep] | None = None
    _spent: float = 0.0
    calls: int = 0
    """That were looked at."""
    most_rounds: int = 0
    """As often a step was done in one forward."""
    is_slow: bool = False
    """Whether one forward takes so long that little can be asked."""

    def note(self, oracle: Oracle, arguments: Arguments) -> None:
        """One more call was judged; a reference that has no answer here shows nothing."""
        if self.file is None or self.is_spent or self._left == []:
            return
        began = self.worked()
        try:
            self._note(self.file, oracle, arguments, began)
        except REFUSALS:
            return
        finally:
            self._spent += self.worked() - began

    def _note(self, file: str, oracle: Oracle, arguments: Arguments, began: float) -> None:
        looked = look_at(file, lambda: oracle.all_it_leaves(arguments))
        self.most_rounds = max(self.most_rounds, looked.most_rounds)
        if self._left is None:
            one = self.worked() - began
            few = int(self.most_seconds * _FIRST_PASS / max(one, 1e-6))
            self._left = list(looked.wrong[: min(_MOST, few)])
            self.is_slow = few < _MOST_SLOW
        until = began + self.most_seconds - self._spent
        self.leave_out(self.shown_by(oracle, arguments, looked.answer, until))
        self.calls += self.worked() < until

    def leave_out(self, shown: Collection[WrongStep]) -> None:
        """These are shown by a call that is made."""
        self._left = [wrong for wrong in self._left or () if wrong not in shown]

    def shown_by(
        self,
        oracle: Oracle,
        arguments: Arguments,
        right: Any = None,
        until: float = math.inf,
    ) -> list[WrongStep]:
        """Those still unnoticed whose answer to these inputs is clearly another; raises what the reference raises.

        `right`: the reference's own answer; None: it is asked. `until`: by `worked`, nothing more is asked then.
        """
        if self.file is None or not self._left:
            return []
        if right is None:
            right = oracle.all_it_leaves(arguments)
        shown: list[WrongStep] = []
        of_later_rounds: set[tuple[Step, Change]] = set()
        for wrong in sorted(self._left, key=lambda wrong: -wrong.begin):
            if self.worked() >= until:
                break
            # What shows from a later round on shows from an earlier one on.
            this = wrong.step, wrong.change
            if this in of_later_rounds or self._shows(wrong, oracle, arguments, right):
                of_later_rounds.add(this)
                shown.append(wrong)
        return shown

    def _shows(self, wrong: WrongStep, oracle: Oracle, arguments: Arguments, right: Any) -> bool:
        assert self.file is not None
        try:
            answer = with_wrong_step(wrong, self.file, lambda: oracle.all_it_leaves(arguments))
        except (*REFUSALS, MemoryError):
            return True
        return differs(right, answer)

    @property
    def is_spent(self) -> bool:
        """Whether there is no time for more."""
        return self._spent >= self.most_seconds

    @property
    def left(self) -> tuple[WrongStep, ...]:
        """Empty where there was only time to ask about them in few calls."""
        few = self.is_spent and self.calls < _ENOUGH_CALLS
        return () if few else tuple(self._left or ())

    def sentence(self) -> str | None:
        """What to tell of them; None: every step showed."""
        by_place: dict[str, list[str]] = {}
        for wrong in self.left:
            said = by_place.setdefault(wrong.place, [])
            if not any(words.startswith(wrong.change.words) for words in said):
                said.append(wrong.words)
        if not by_place:
            return None
        told = [f"{place} {', or '.join(words[:_SHOWN])}" for place, words in by_place.items()]
        more = [f"{len(told) - _SHOWN} more likewise"] if len(told) > _SHOWN else []
        return (
            f"these steps of your module could be done wrong and none of the {self.calls} judged calls that were looked at would "
            f"show it, so that a candidate may do them so: {'; '.join([*told[:_SHOWN], *more])}"
        )
