"""Which parts of a candidate's kernels could be left out, or be smaller, without a judged call's showing it.

Mutation testing, of the candidate by the calls that accepted it: a loop that has too few rounds for rare inputs, or a window that
reaches too little far back, answers rightly wherever its last round or its farthest lane does not matter. So does an honest one that
is long enough: nobody is refused, and a reader of the verdict is told where to look. What is left out at a time stands in
`kernelagent.tools.virtual.kernel_text.omissions`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelagent.tools.judge.problem.wrong_steps.noticed import differs
from kernelagent.tools.judge.verify.beyond.untried_choices import more_at
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.kept_calls import KeptCall, KeptCalls
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.kernel_text.omissions import (
    BEGINNING,
    BOUND,
    FIRST,
    ROUND,
    STEP,
    UPPER,
    Omission,
)

_WORDS = {
    ROUND: "one round fewer",
    BEGINNING: "without its first round",
    STEP: "left out",
    BOUND: "tighter by one",
    FIRST: "without its first number",
    UPPER: "with its lower half alone",
}
NOT_ASKED = "kernel_parts_not_asked"
"""The code of the disclosure where that is so of some."""
_SHOWN = 4
_TIMES_AS_LONG, _LEAST_S = 4.0, 0.5
"""How long a call may take without a part, by what it takes with all."""
_ENOUGH_ALIKE = 3
"""Calls of one kind, after which others have the same parts."""
_ENOUGH_CALLS = 6
"""In fewer, where there was no time for all, nothing is said."""


class _Late(Exception):
    """There is no time for more."""


@dataclass
class KernelPartsNotShown:
    """What a candidate's process is asked, call after call; it is used for nothing else afterwards."""

    process: CandidateProcess
    findings: Findings
    seconds: float
    is_sample: bool = False
    """As in a turn, whose winner is asked again: that some parts were not asked for is no news."""
    _left: dict[Omission, int] = field(default_factory=dict)
    """Those that no call has shown so far, and in how many calls they were left out."""
    _shown: set[Omission] = field(default_factory=set)
    _looked: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Calls by input set, forwards and training steps apart."""
    _ends: float = 0.0
    _usual_s: float = 0.0
    """What the call took with all parts."""

    def of(self, calls: KeptCalls) -> None:
        """Adds what there is to tell of them to `findings`; nothing where every part showed."""
        self._ends = time.monotonic() + self.seconds
        watched = {"bounds": True, "races": False, "traffic": False}
        complete = True
        try:
            self.process.command_executor({"kind": "observe", **watched})
            for call in calls:
                if not self._knows_all_of(call):
                    self._look_at(call)
        except (_Late, Rejected):
            # Of a process that has ended, or an executor: nothing here refuses anybody.
            complete = False
        told = {n: c for n, c in self._left.items() if c and (complete or c >= _ENOUGH_CALLS)}
        if told:
            self.findings.disclose(
                "kernel_parts_not_shown", _sentence(list(told), min(told.values()))
            )
        nothing_known = not self._left and not self._shown
        if not complete and not self.is_sample and (nothing_known or len(told) < len(self._left)):
            self.findings.disclose(
                NOT_ASKED,
                f"which parts of the kernels the judged calls need was not asked of all parts: a few seconds "
                f"({self.seconds:g}) are spent on it, or the candidate's process ended",
            )

    def _knows_all_of(self, call: KeptCall) -> bool:
        """Whether all parts have shown, and calls like this one have no others."""
        kind = call.input_set, call.step is not None
        self._looked[kind] += 1
        return not self._left and self._looked[kind] > _ENOUGH_ALIKE

    def _look_at(self, call: KeptCall) -> None:
        usual, met = self._answer(call, ())
        if usual is None:
            # Judged before it was right: in this process, after other calls, it has no answer that tells anything.
            return
        known = [part for part in met if part in self._left]
        fresh = [part for part in met if part not in self._shown and part not in self._left]
        fresh.sort(key=_urgency)
        self._left |= dict.fromkeys(fresh, 0)
        if known and self._is_shown(call, usual, known):
            fresh += known
            known = []
        for part in known:
            self._left[part] += 1
        for part in fresh:
            if self._is_shown(call, usual, [part]):
                del self._left[part]
                self._shown.add(part)
            else:
                self._left[part] += 1

    def _is_shown(self, call: KeptCall, usual: Any, parts: Sequence[Omission]) -> bool:
        """Whether the call is answered otherwise without all of these."""
        other, _ = self._answer(call, parts)
        return other is None or differs(usual, other)

    def _answer(
        self, call: KeptCall, omitted: Sequence[Omission]
    ) -> tuple[Any, Sequence[Omission]]:
        """All that the call leaves behind, None where it fails; and what its launches could be run without."""
        began = time.monotonic()
        if began > self._ends:
            raise _Late
        process = self.process
        # Without a part of it a loop may never end.
        left = self._ends - began
        seconds = max(_LEAST_S, min(left, self._usual_s * _TIMES_AS_LONG) if omitted else left)
        try:
            # What a call without a part has written to is loaded again.
            process.hold(call.weights)
            process.command_executor({"kind": "mode", "mode": "execute", "seconds": seconds})
            process.command_executor({"kind": "omit", "omitted": [list(part) for part in omitted]})
            most = seconds * (1 + bool(omitted)) + _LEAST_S
            answer = process.call(call.arguments, step=call.step, most_s=most)
            rows = process.take_launches()
            met = process.command_executor({"kind": "met"}).header["parts"]
            state = process.state() if call.leaves_state else None
        except Rejected as refused:
            if not omitted or process.has_ended or refused.reason.code == "crash":
                raise _Late from refused
            process.take_launches()
            return None, ()
        if not (omitted or call.leaves_state or call.step):
            process.still_holds(call.weights)
        if any(row.get("fault") for row in rows):
            return None, ()
        if not omitted:
            self._usual_s = time.monotonic() - began
        everything = answer.output, answer.changed_arguments, state
        return everything, [Omission(str(kind), int(line), str(text)) for kind, line, text in met]


def _urgency(part: Omission) -> tuple[int, int]:
    """What tells most comes first: there may be no time for all."""
    return list(_WORDS).index(part.kind), part.line


def _sentence(parts: Sequence[Omission], calls: int) -> str:
    by_place = sorted(parts, key=_urgency)
    told = [f"line {part.line} `{part.text}` {_WORDS[part.kind]}" for part in by_place]
    more = more_at(part.line for part in by_place[_SHOWN:])
    return (
        f"the kernels would answer all of the {calls} judged calls that were looked at alike with less, so that "
        f"no call shows whether this is enough: {'; '.join([*told[:_SHOWN], *more])}"
    )
