"""A run's log folded into lessons: the same log gives the same lessons, and no model is asked.

Each lesson comes with the one turn that speaks for it, or against it: a rule that was told and that the
turn broke all the same, a change that made a version slower, a build that stayed behind eager.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Evaluation, Interval
from kernelagent.domain.history import History, Turn
from kernelagent.domain.tables.rejection_codes import LOCATION_SPECIFIC, TEACHING
from kernelagent.prompts.repeats import normal_form
from kernelagent.storage.lessons.facts import (
    bound_of,
    built,
    fact_of,
    key_of,
    optimization_changes,
    stated_in,
)
from kernelagent.storage.lessons.lesson import Evidence, Kind, Lesson, device_key, identified
from kernelagent.storage.lessons.patterns import ANY, Pattern, pattern_of
from kernelagent.storage.run_state import RunState
from kernelagent.storage.scrubbing import Scrubber

_LOAD_DEPENDENT = frozenset({"timeout"})
"""Codes that give no lesson: whether a candidate times out depends on the load of the machine."""
_NOISE = 1.2
"""Estimates nearer to each other than this say nothing."""


@dataclass(frozen=True)
class Distilled:
    """What one run teaches."""

    run: str
    lessons: tuple[Lesson, ...]
    """Each with exactly one piece of evidence; the same lesson may come several times."""
    accepted: dict[str, Evidence]
    """By program: the acceptances, which speak against any rule learnt from that very program."""
    redacted: int = 0
    """Places where something that looks like a secret or a path was taken out."""


def distil(state: RunState) -> Distilled:
    """The lessons of a run; raises `UsageError` when its problem was never read."""
    if state.facts is None or state.device is None:
        raise UsageError(f"run {state.run}: its problem was never read, there is nothing to learn")
    fold = _Fold(state, pattern_of(state.facts.source), device_key(state.device), Scrubber())
    lessons = tuple(fold.lessons())
    accepted = {
        fold.program(turn): fold.evidence(turn, supports=False)
        for turn in state.history.finished
        if turn.accepted
    }
    return Distilled(state.run, lessons, accepted, fold.scrubber.taken)


@dataclass(frozen=True)
class _Fold:
    state: RunState
    pattern: Pattern
    device: str
    scrubber: Scrubber

    @property
    def history(self) -> History:
        return self.state.history

    def lessons(self) -> Iterator[Lesson]:
        for turn in self.history.finished:
            # A machine at fault teaches nothing about kernels.
            if turn.evaluation is None or turn.evaluation.verdict == "error":
                continue
            yield from self._rule(turn)
            parent = self._parent(turn)
            if parent is None or parent.evaluation is None:
                continue
            if parent.accepted and turn.accepted:
                yield from self._moves(parent, turn)
            elif not parent.accepted:
                yield from self._remedy(parent, turn)
        yield from self._best()

    def evidence(self, turn: Turn, *, supports: bool, said: str = "") -> Evidence:
        result = turn.evaluation
        assert result is not None
        return Evidence(
            run=self.state.run,
            turn=turn.index,
            supports=supports,
            verdict="accepted" if result.reason is None else result.reason.code,
            judged_by=result.hashes.harness[:12] if result.hashes is not None else "",
            versions=f"triton {result.device.triton}, torch {result.device.torch}",
            program=self.program(turn),
            said=self.scrubber.clean(said),
        )

    def program(self, turn: Turn) -> str:
        source = turn.candidate.source if turn.candidate is not None else ""
        return hashlib.sha256(normal_form(source).encode()).hexdigest()[:12]

    def _parent(self, turn: Turn) -> Turn | None:
        at = turn.request.parent
        return next((t for t in self.history.turns if t.index == at), None)

    def _rule(self, turn: Turn) -> Iterator[Lesson]:
        """A rule that this turn broke; against it, when the turn had been told."""
        lesson = self._avoid(turn)
        if lesson is not None:
            reported = lesson.id in {item.lesson for item in turn.request.recalled}
            yield lesson.with_evidence((self.evidence(turn, supports=not reported),))

    def _avoid(self, turn: Turn) -> Lesson | None:
        reason = turn.evaluation.reason if turn.evaluation is not None else None
        if reason is None or reason.code not in TEACHING - _LOAD_DEPENDENT:
            return None
        if not (fact := fact_of(reason.message)):
            return None
        everywhere = reason.code not in LOCATION_SPECIFIC
        return self._lesson("avoid", fact, key_of(fact), code=reason.code, everywhere=everywhere)

    def _remedy(self, parent: Turn, turn: Turn) -> Iterator[Lesson]:
        reason = parent.evaluation.reason if parent.evaluation is not None else None
        if reason is None:
            return
        teaching = reason.code in TEACHING
        fact = fact_of(reason.message) if teaching else ""
        everywhere = teaching and reason.code not in LOCATION_SPECIFIC
        lesson = self._lesson("remedy", fact, key_of(fact), code=reason.code, everywhere=everywhere)
        if turn.accepted:
            message = stated_in(turn.reply or "")
            yield lesson.with_evidence((self.evidence(turn, supports=True, said=message),))
        elif lesson.id in {item.lesson for item in turn.request.recalled}:
            yield lesson.with_evidence((self.evidence(turn, supports=False),))

    def _moves(self, parent: Turn, turn: Turn) -> Iterator[Lesson]:
        assert parent.evaluation is not None
        assert turn.evaluation is not None
        ratio = _ratio(parent.evaluation, turn.evaluation)
        if ratio is None or ratio.low <= 1 <= ratio.high:
            return
        estimated = turn.evaluation.estimate is not None
        made = tuple(optimization_changes(parent.evaluation, turn.evaluation))
        bound = bound_of(parent.evaluation)
        for move in made:
            beside = ", ".join(other for other in made if other != move)
            message = stated_in(turn.reply or "") + (
                f" [together with: {beside}]" if beside else ""
            )
            seen = self.evidence(turn, supports=ratio.low > 1, said=message)
            lesson = self._lesson("helps", move, move, bound=bound)
            yield lesson.with_evidence((_with_ratio(seen, ratio, estimated=estimated),))

    def _best(self) -> Iterator[Lesson]:
        """How the run's best version is built, by the second measurement where there was one."""
        best = self.history.best
        if best is None or best.evaluation is None:
            return
        result = self.state.measured.get(best.index, best.evaluation)
        how = built(result)
        if not how or not result.accepted:
            return
        seen = self.evidence(best, supports=result.score > 1, said=stated_in(best.reply or ""))
        against = _against_eager(result)
        if against is not None:
            seen = _with_ratio(seen, against, estimated=result.estimate is not None)
        yield self._lesson("worked", how, how).with_evidence((seen,))

    def _lesson(
        self,
        kind: Kind,
        words: str,
        key: str,
        *,
        code: str = "",
        bound: str = "",
        everywhere: bool = False,
    ) -> Lesson:
        plain = Lesson(
            kind=kind,
            device=self.device,
            pattern=ANY if everywhere else self.pattern.name,
            words=self.scrubber.clean(words),
            operations=() if everywhere else self.pattern.operations,
            code=code,
            bound=bound,
        )
        return identified(plain, key)


def sentence_for(lesson: Lesson) -> str:
    """The latest words of a writer whose turn supports the lesson."""
    words = [item.said for item in lesson.evidence if item.supports and item.said]
    return words[-1] if words else ""


def together(lessons: Iterable[Lesson]) -> dict[str, Lesson]:
    """By id, with all evidence of the same lesson in one, each piece once."""
    result: dict[str, Lesson] = {}
    for lesson in lessons:
        there = result.setdefault(lesson.id, replace(lesson, evidence=()))
        known = {item.key for item in there.evidence}
        new = tuple(item for item in lesson.evidence if item.key not in known)
        result[lesson.id] = there.with_evidence(new)
    return result


def _ratio(before: Evaluation, after: Evaluation) -> Interval | None:
    """How much faster `after` is; of estimates with the margin in which they say nothing."""
    if before.timing is not None and after.timing is not None:
        old, new = before.timing.speedup_eager, after.timing.speedup_eager
        return Interval(new.value / old.value, new.low / old.high, new.high / old.low)
    if before.estimate is not None and after.estimate is not None:
        value = after.estimate.ratio / before.estimate.ratio
        return Interval(value, value / _NOISE, value * _NOISE)
    return None


def _against_eager(evaluation: Evaluation) -> Interval | None:
    if evaluation.timing is not None:
        return evaluation.timing.speedup_eager
    if evaluation.estimate is not None:
        return Interval(
            evaluation.estimate.ratio, evaluation.estimate.ratio, evaluation.estimate.ratio
        )
    return None


def _with_ratio(seen: Evidence, ratio: Interval, *, estimated: bool) -> Evidence:
    if estimated:
        return replace(seen, ratio=round(ratio.value, 3), estimated=True)
    low, high = round(ratio.low, 3), round(ratio.high, 3)
    return replace(seen, ratio=round(ratio.value, 3), low=low, high=high)
