"""The envelope found by asking: neighbouring input sets go through the judge, and what passes is added.

Each neighbour is judged on fewer calls than the given input sets, under given and under random weights, and is
admitted as it was run: these sizes, this type, nothing in between and nothing beyond. One of them, drawn, is judged in full,
with everything that is asked in a turn; where it is refused there, none is admitted.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelagent.domain.evaluation import OUT_OF_TIME, Disclosure
from kernelagent.tools.judge.envelope import envelope
from kernelagent.tools.judge.envelope.neighbours import Neighbour, neighbours
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.steps.training import AT_OTHER_SIZES, training_rounds
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.trials import WHERE_SIZES_SHOW, rounds
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.verify.verify import Verifier

Ready = Callable[[], CandidateProcess]
InFull = Callable[[InputSource], tuple[Disclosure, ...]]
_BETWEEN = "; "
_ENOUGH_REFUSED = 3
"""Stop after this many rejected neighbours with none accepted: the candidate probably checks its sizes."""


@dataclass
class Widened:
    """What was found; `admitted` has the form of the envelope's input sets."""

    admitted: list[dict[str, Any]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """By name, the code of the rejection: the original answers there."""
    sources: list[InputSource] = field(default_factory=list)
    """Where the inputs of those come from."""
    out_of_time: bool = False
    in_full: str | None = None
    """The name of the one that was judged in full."""
    withdrawn: str | None = None
    """Why that one was refused, and with it all that had passed fewer calls."""
    told: tuple[Disclosure, ...] = ()
    """What its judging in full told."""

    def withdraw(self, name: str, code: str) -> None:
        """None is admitted, because one of them is refused in full."""
        self.withdrawn = (
            f"no neighbouring input is admitted, and the original answers there: {name}, which had passed as others had, "
            f"was judged in full and refused ({code})"
        )
        self.admitted, self.sources = [], []

    def said(self) -> str:
        """One sentence for whoever reads the acceptance."""
        if self.withdrawn is not None:
            return self.withdrawn
        names = [str(item["name"]) for item in self.admitted]
        if self.refused and not names and {*self.refused.values()} == {"runtime_error"}:
            # Nothing wrong: kernels may be written for the given sizes.
            return (
                f"written for the given input sizes alone: it raised on each other that was tried "
                f"({_BETWEEN.join(self.refused)}), and the original answers there"
            )
        listed = _BETWEEN.join(_grouped(names)) or "none"
        parts = [f"neighbouring inputs verified and admitted: {listed}"]
        if self.in_full is not None:
            parts.append(f"One of them was drawn and judged in full: {self.in_full}")
        if self.refused:
            rows = (f"{name} ({code})" for name, code in self.refused.items())
            parts.append(f"refused, the original answers there: {_BETWEEN.join(rows)}")
        if self.out_of_time:
            parts.append(OUT_OF_TIME)
        return ". ".join(parts)


def _grouped(names: Sequence[str]) -> list[str]:
    """Those that differ in one number alone are one: `default with x.shape[0] = 1, 7, 33`."""
    numbers: dict[str, list[int]] = {}
    for name in names:
        what, _, last = name.rpartition(" = ")
        if what and last.isdecimal():
            numbers.setdefault(what, []).append(int(last))
        else:
            numbers[name] = []
    return [
        f"{what} = {', '.join(map(str, sorted(values)))}" if values else what
        for what, values in numbers.items()
    ]


def widen(
    context: JudgeContext,
    ready: Ready,
    in_full: InFull,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    *,
    closed: frozenset[str] = frozenset(),
) -> Widened:
    """Judge neighbours of each input set until `seconds` are over, then one in full; never raises for a candidate.

    `closed`: input sets whose neighbours are not asked for.
    `ready`: a fresh process of the candidate, loaded and constructed. `in_full`: judges one input set as a problem's own is
    judged, and says what is to be told of it; raises `Rejected`.
    """
    end = clock() + seconds
    result = Widened()
    process: CandidateProcess | None = None
    try:
        for item in _all(context, closed):
            if clock() >= end:
                result.out_of_time = True
                break
            try:
                process = process or ready()
                _judge(context, process, item)
            except Rejected as refused:
                result.refused[item.source.name] = refused.reason.code
                # The process may be in a bad state after a rejection: start a new one.
                if process is not None:
                    process.close()
                process = None
                if not result.admitted and len(result.refused) >= _ENOUGH_REFUSED:
                    break
                continue
            entry = envelope.input_set(context, item.source.name, item.source.full)
            if not any(_same(entry, other) for other in result.admitted):
                result.admitted.append(entry)
                result.sources.append(item.source)
    finally:
        if process is not None:
            process.close()
        context.oracle.use_weights(context.oracle.given_weights)
    if result.sources:
        drawn = secrets.choice(result.sources)
        try:
            result.told = in_full(drawn)
            result.in_full = drawn.name
        except Rejected as refused:
            result.withdraw(drawn.name, refused.reason.code)
    return result


def _all(context: JudgeContext, closed: frozenset[str]) -> Iterator[Neighbour]:
    """One of each input set in turn: where time runs out, none of them has had all of it."""
    left = [
        neighbours(
            source,
            context.dynamic.get(source.name, ()),
            context.oracle,
            interpreted=context.device.kind == "virtual",
        )
        for source in context.sources
        if source.name not in closed
    ]
    while left:
        for several in tuple(left):
            item = next(several, None)
            if item is None:
                left.remove(several)
            else:
                yield item


def _judge(context: JudgeContext, process: CandidateProcess, neighbour: Neighbour) -> None:
    verifier = Verifier.of(context, process, Findings())
    for trial in rounds(context.oracle, (neighbour.source,), {}, plan=WHERE_SIZES_SHOW):
        verifier.run(trial)
    if context.trains:
        for trial in training_rounds(context.oracle, (neighbour.source,), {}, plan=AT_OTHER_SIZES):
            verifier.run(trial)


def _same(first: dict[str, Any], other: dict[str, Any]) -> bool:
    return {**first, "name": ""} == {**other, "name": ""}
