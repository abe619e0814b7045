"""Which lessons fit a turn: at most a few short lines, the most fitting first.

A lesson fits by the kind of problem, by what is asked (a repair wants what mended that very rejection,
an optimisation what lifted that very limit) and by its evidence; those of another device, or of another
version of the judge, come later and say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.history import History, Recalled, RequestKind, Turn, TurnRequest
from kernelagent.domain.problem import ProblemFacts
from kernelagent.domain.tables.rejection_codes import TEACHING
from kernelagent.storage.lessons.distil import sentence_for
from kernelagent.storage.lessons.facts import bound_of, closed, fact_of, key_of
from kernelagent.storage.lessons.lesson import Evidence, Lesson, device_key
from kernelagent.storage.lessons.patterns import ANY, Pattern, parsed, pattern_of

MOST = 4
_LEAST = 1.5
"""Lessons less fitting than this are left untold: every line costs attention."""


@dataclass(frozen=True)
class Situation:
    """What a turn is about to do."""

    kind: RequestKind
    pattern: Pattern
    device: str
    code: str = ""
    """Why its parent was rejected."""
    fact: str = ""
    """`key_of` the parent's message."""
    bound: str = ""
    """What limits its accepted parent."""
    closed: frozenset[str] = frozenset()
    """Changes of which that parent has nothing left to win."""
    known: frozenset[str] = frozenset()
    """Facts from this run's own rejections, which the prompt already contains."""


@dataclass(frozen=True)
class Memory:
    """The lessons as they stood when the run began; another run's learning does not reach it."""

    lessons: tuple[Lesson, ...]
    judge: str = ""
    """First digits of this harness's hash."""
    most: int = MOST

    def recall(
        self, facts: ProblemFacts, device: DeviceFacts, history: History, request: TurnRequest
    ) -> tuple[Recalled, ...]:
        """What the turn's model is told of earlier runs."""
        return self.fitting(situation_of(facts, device, history, request))

    def fitting(self, situation: Situation) -> tuple[Recalled, ...]:
        scored = [(fit(lesson, situation), lesson) for lesson in self.lessons if lesson.stands]
        # A lesson with the same text from another device is not shown a second time.
        reported: set[tuple[str, str, str]] = set()
        quoted: set[str] = set()
        result: list[Recalled] = []
        for score, lesson in sorted(scored, key=lambda pair: (-pair[0], pair[1].id)):
            same = (lesson.kind, lesson.code, lesson.words)
            if score < _LEAST or same in reported or len(result) == self.most:
                continue
            reported.add(same)
            message = sentence_for(lesson)
            quote = "" if message in quoted else message
            quoted.add(message)
            result.append(Recalled(lesson.id, line(lesson, situation, self.judge, quote)))
        return tuple(result)


def situation_of(
    facts: ProblemFacts, device: DeviceFacts, history: History, request: TurnRequest
) -> Situation:
    parent = None if request.parent is None else history.turn(request.parent)
    result = parent.evaluation if parent is not None else None
    reason = result.reason if result is not None else None
    return Situation(
        kind=request.kind,
        pattern=pattern_of(facts.source),
        device=device_key(device),
        code=reason.code if reason is not None else "",
        fact=key_of(fact_of(reason.message)) if reason and reason.code in TEACHING else "",
        bound=bound_of(result) if result is not None and result.accepted else "",
        closed=closed(result) if result is not None else frozenset(),
        known=frozenset(_facts(history.finished)),
    )


def fit(lesson: Lesson, situation: Situation) -> float:
    """How well a lesson fits; 0: not at all."""
    wanted = _wanted(lesson, situation)
    place = _place(lesson, situation.pattern)
    if wanted == 0 or place == 0:
        return 0.0
    here = 1.0 if lesson.device == situation.device else 0.0
    return wanted + place + here + lesson.trust + 0.25 * math.log(lesson.pros)


def _wanted(lesson: Lesson, situation: Situation) -> float:
    fact = key_of(lesson.words)
    match lesson.kind:
        case "avoid":
            return 0.0 if fact in situation.known else 0.5
        case "remedy":
            if lesson.code != situation.code or situation.kind == "write":
                return 0.0
            return 3.0 if fact == situation.fact else 1.0 if not (fact and situation.fact) else 0.0
        case "helps":
            open_ = situation.kind == "optimise" and lesson.words not in situation.closed
            return 2.0 if open_ and lesson.bound == situation.bound else 0.0
        case "worked":
            return 1.0 if situation.kind in ("write", "rethink") else 0.0


def _place(lesson: Lesson, pattern: Pattern) -> float:
    if lesson.pattern == ANY:
        return 0.5
    return pattern.likeness(parsed(lesson.pattern, lesson.operations))


def line(lesson: Lesson, situation: Situation, judge: str = "", quote: str = "") -> str:
    """One line of a prompt: the lesson, how well it is proven, and where it does not quite fit.

    `quote`: what the writer of that turn said about it.
    """
    proven = "; ".join([_count(lesson), *_labels(lesson, situation, judge)])
    quoted = f" (its writer: “{quote}”)" if quote else ""
    match lesson.kind:
        case "avoid":
            return f"avoid {lesson.code}: {lesson.words} ({proven})"
        case "remedy":
            what = f"{lesson.code}: {lesson.words}" if lesson.words else lesson.code
            return f"after {what}: a version with this change was accepted{quoted} ({proven})"
        case "helps":
            return f"when bound by {lesson.bound}: {lesson.words} ({proven}){quoted}"
        case "worked":
            return f"best for {lesson.pattern}: {lesson.words} ({proven})"


def _count(lesson: Lesson) -> str:
    total = len(lesson.evidence)
    times = f"{lesson.pros} of {total} turns" if lesson.cons else f"{total} turns"
    times = times.removesuffix("s") if total == 1 else times
    latest = [item for item in lesson.evidence if item.supports and item.ratio is not None]
    return f"{_speed(lesson, latest[-1])}, {times}" if latest else times


def _speed(lesson: Lesson, evidence: Evidence) -> str:
    than = "eager" if lesson.kind == "worked" else "the version before"
    if evidence.estimated:
        return f"{evidence.ratio:.2f}× {than} by ESTIMATE, not timed"
    return f"{evidence.ratio:.2f}× [{evidence.low:.2f}, {evidence.high:.2f}] {than}"


def _labels(lesson: Lesson, situation: Situation, judge: str) -> list[str]:
    result = []
    if lesson.device != situation.device:
        result.append(f"learnt on {lesson.device}, not tried here")
    judges = {item.judged_by for item in lesson.evidence if item.supports}
    if judge and judge not in judges:
        result.append("by another version of the judge")
    if lesson.pattern not in (ANY, situation.pattern.name) and lesson.kind != "worked":
        result.append(f"seen in {lesson.pattern}")
    return result


def _facts(turns: Sequence[Turn]) -> list[str]:
    reasons = (turn.evaluation.reason for turn in turns if turn.evaluation is not None)
    return [key_of(fact_of(r.message)) for r in reasons if r is not None and r.code in TEACHING]
