"""What a memory across runs is worth, and what a wrong one costs.

    python -m benchmarks.memory [--problems N] [--seed N] [--write FILE]

SIMULATED: what a told rule does to the writer is assumed, what is measured is the retrieval (the real
distilling, library and recall). Real runs, and what they are told: `benchmarks.memory_real`.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.events import Evaluated, Logged, TurnStarted
from kernelagent.domain.history import History, Recalled, TurnRequest
from kernelagent.domain.problem import ProblemFacts
from kernelagent.loop.attached_lessons import learn
from kernelagent.prompts import estimate_tokens
from kernelagent.storage.lessons.lesson import Lesson
from kernelagent.storage.lessons.library import Library
from kernelagent.storage.lessons.patterns import ANY
from kernelagent.storage.lessons.recall import Memory
from kernelagent.storage.run_state import fold
from kernelagent.suite.compare.families import FAMILIES, problems_of
from kernelagent.suite.compare.remembering import (
    PATTERNS,
    Heeding,
    RememberingRuns,
    World,
    names,
    useful_lines,
)
from kernelagent.suite.compare.simulated import Point, SimulatedProblem
from kernelagent.suite.compare.study import Comparison, compare

NONE = "no memory"
TURNS = 12
TRAINING = 60
"""Problems the library learns from, before any that is measured."""
NEW_WORLD = 3


@dataclass(frozen=True)
class Retrieval:
    """What was told in the runs of one arm."""

    turns: int
    lines: int
    useful: int
    """Lines that name a pitfall the problem has."""
    taught: int
    """Turns that fell, or but for the memory would have fallen, into a pitfall of the library."""
    warned: int
    """Those of them that had been told of that very pitfall."""
    tokens: int

    @property
    def row(self) -> str:
        if not self.lines:
            return "0 | – | – | 0"
        return (
            f"{self.lines / self.turns:.1f} | {share(self.useful, self.lines)} "
            f"| {share(self.warned, self.taught)} | {self.tokens / self.turns:.0f}"
        )


HALF = Heeding(0.5)


@dataclass
class Arm:
    """One way to have a memory."""

    name: str
    words: str = ""
    lessons: tuple[Lesson, ...] = ()
    heeding: Heeding = HALF
    learns: Library | None = None
    """Grows with each run of the arm."""

    def recall(
        self, facts: ProblemFacts, device: DeviceFacts, history: History, request: TurnRequest
    ) -> tuple[Recalled, ...]:
        return Memory(self.lessons).recall(facts, device, history, request)

    def learn(self, logged: list[Logged]) -> None:
        if self.learns is not None:
            learn(self.learns, fold(logged))
            self.lessons = self.learns.lessons()


def problems(count: int, seed: int) -> tuple[dict[str, SimulatedProblem], dict[str, str]]:
    """`count` problems of levels 2 and 3, the patterns in turn."""
    both = (problems_of(FAMILIES[level], count // 2, seed) for level in ("level-2", "level-3"))
    result = {item.name: item for level in both for item in level}
    kinds = list(PATTERNS)
    return result, {name: kinds[place % len(kinds)] for place, name in enumerate(result)}


def taught_library(seed: int, world: World, folder: Path) -> Library:
    """What runs without a memory on other problems teach."""
    chosen, patterns = problems(TRAINING, seed + 1000)
    take = RememberingRuns(chosen, patterns, world, Budget(turns=TURNS), {NONE: None})
    library = Library.at(folder, make=True)
    for name in chosen:
        learn(library, fold(take(NONE, name, seed)))
    return library


def misfiled(lessons: tuple[Lesson, ...]) -> tuple[Lesson, ...]:
    """Every lesson of a pattern filed under the next one: a wrong library."""
    kinds = list(PATTERNS)
    after = dict(zip(kinds, kinds[1:] + kinds[:1], strict=True)) | {ANY: ANY}
    operation = {
        "softmax": "softmax",
        "normalisation": "layer_norm",
        "matmul": "matmul",
        "convolution": "conv2d",
        "scan": "cumsum",
    }
    return tuple(
        replace(
            item,
            pattern=after[item.pattern],
            operations=(operation[after[item.pattern]],) if item.pattern != ANY else (),
        )
        for item in lessons
    )


def arms(seed: int, folder: Path) -> list[Arm]:
    own = taught_library(seed, World(), folder / "own").lessons()
    empty = Library.at(folder / "growing", make=True)
    return [
        Arm(NONE),
        Arm("own, unheeded", "lines are told and change nothing", own, Heeding(0.0)),
        Arm("own, heeded 1/4", "", own, Heeding(0.25)),
        Arm("own, heeded 1/2", "", own),
        Arm("own, heeded always", "no writer is that good", own, Heeding(1.0)),
        Arm("growing, heeded 1/2", "empty at first, learns from each run", learns=empty),
        Arm("misfiled, heeded 1/2", "each lesson under another pattern", misfiled(own)),
    ]


def arms_after_a_change(seed: int, folder: Path) -> list[Arm]:
    old = taught_library(seed, World(), folder / "old")
    kept = taught_library(seed, World(), folder / "kept")
    return [
        Arm(NONE),
        Arm("out of date, heeded 1/2", "", old.lessons()),
        Arm("out of date but learning, heeded 1/2", "", kept.lessons(), learns=kept),
    ]


def study(
    count: int, seed: int, world: World, chosen: list[Arm]
) -> tuple[Comparison, dict[str, Retrieval]]:
    result, patterns = problems(count, seed)
    take = RememberingRuns(
        result,
        patterns,
        world,
        Budget(turns=TURNS),
        {arm.name: None if arm.name == NONE else arm.recall for arm in chosen},
        {arm.name: arm.heeding for arm in chosen},
        {arm.name: arm.learn for arm in chosen},
    )
    compared = compare([a.name for a in chosen], list(result), take, seeds=(seed,), simulated=True)
    return compared, {arm.name: retrieval(take, arm, world) for arm in chosen}


def retrieval(take: RememberingRuns, arm: Arm, world: World) -> Retrieval:
    """Counted from the logs of an arm's runs alone."""
    held = {item.words for item in arm.lessons if item.kind == "avoid" and item.stands}
    counts = [0, 0, 0, 0, 0, 0]
    for (name, problem, _), logged in take.kept.items():
        if name != arm.name:
            continue
        pattern = take.patterns[problem]
        reported = {e.turn: e.request.recalled for e in started(logged)}
        counts[0] += len(reported)
        for lines in reported.values():
            counts[1] += len(lines)
            counts[2] += useful_lines(lines, world.pitfalls(pattern))
            counts[5] += sum(estimate_tokens(item.words) for item in lines)
        for event in (item.event for item in logged if isinstance(item.event, Evaluated)):
            met = world.met(pattern, Point.read(event.source))
            if event.evaluation.accepted or met is None or met.fact not in held:
                continue
            counts[3] += 1
            counts[4] += names(reported[event.turn], met)
    return Retrieval(*counts)


def started(logged: list[Logged]) -> Iterator[TurnStarted]:
    return (item.event for item in logged if isinstance(item.event, TurnStarted))


def table(compared: Comparison, seen: dict[str, Retrieval], chosen: list[Arm]) -> list[str]:
    lines = [
        "| memory | best score | over none, 95 % interval | correct runs | accepted turns "
        "| lines a turn | of them useful | failures warned of | tokens a turn |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in compared.rows("turns", TURNS):
        arm = next(item for item in chosen if item.name == row.strategy)
        ratio = compared.ratio(row.strategy, NONE, "turns", TURNS)
        runs = compared.of(row.strategy)
        accepted = share(sum(r.accepted for r in runs), sum(r.evaluated for r in runs))
        name = f"{arm.name}{f' ({arm.words})' if arm.words else ''}"
        lines.append(
            f"| {name} | {row.worth.value:.3f}× | {ratio.value:.3f}× [{ratio.low:.3f}, "
            f"{ratio.high:.3f}] | {row.correct:.0%} | {accepted} | {seen[arm.name].row} |"
        )
    return lines


def share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def simulated(count: int, seed: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="kernelagent-memory-") as scratch:
        folder = Path(scratch)
        chosen = arms(seed, folder)
        compared, seen = study(count, seed, World(), chosen)
        stale = arms_after_a_change(seed, folder)
        aged, aged_seen = study(count, seed, World(changed=NEW_WORLD), stale)
    lessons = chosen[1].lessons
    return [
        "**SIMULATED: no model was asked, no kernel was run. ASSUMED: that a told rule prevents its "
        "failure with the chance in the first column, that each useless line spoils 1 % of good "
        "candidates, that 35 % of failures teach no rule, and how failures are spread over the rules "
        "(`kernelagent/suite/compare/remembering.py`).** So the scores say what a memory would be worth to such "
        "a writer, not to a real one. MEASURED, with the real distilling, library and recall, are "
        "the last four columns: what is told, whether it is about this problem, whether a failure "
        "that happened had been told of, and what the telling costs.",
        "",
        f"{count} problems of {len(PATTERNS)} patterns, {TURNS} turns each, strategy `auto`; the library learnt "
        f"{len(lessons)} lessons from {TRAINING} other problems. *Failures warned of*: of the failures "
        "whose rule the library holds, those whose turn had been told it; heeding takes warned "
        "failures away, so the row *unheeded* is the one that says how good the retrieval is. A growing "
        "library is counted with the rules it has at the end.",
        "",
        *table(compared, seen, chosen),
        "",
        f"The world after a change: {NEW_WORLD} of the most frequent rules of each pattern, and of the language, "
        "do not hold any more, others are in their place that the library has not met.",
        "",
        *table(aged, aged_seen, stale),
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, default=None)
    arguments = parser.parse_args()
    lines = [
        "# Memory across runs, simulated",
        "",
        f"`python -m benchmarks.memory --problems {arguments.problems} --seed {arguments.seed}`, "
        f"{platform.machine()}, Python {platform.python_version()}. Real runs, and what they are told: "
        "[memory_real.md](memory_real.md).",
        "",
        *simulated(arguments.problems, arguments.seed),
    ]
    print("\n".join(lines))
    if arguments.write is not None:
        arguments.write.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
