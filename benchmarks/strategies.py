"""Strategies in the simulator, at equal turns and at equal tokens, below and beyond the context.

    python -m benchmarks.strategies [--runs N] [--seed N] [--write FILE] [--svg FILE]

SIMULATED throughout: no model is asked and no kernel is run (`kernelagent.suite.compare.simulated`). A check that
fails is printed as it is, and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.events import Evaluated
from kernelagent.strategies import BUILT_IN
from kernelagent.suite.compare.curve import svg
from kernelagent.suite.compare.families import (
    FAMILIES,
    PUBLISHED_TURNS,
    THRESHOLDS,
    Family,
    SimulatedRuns,
    problems_of,
)
from kernelagent.suite.compare.simulated import SimulatedProblem
from kernelagent.suite.compare.study import NOTHING_REAL, Axis, Comparison, compare, geometric_mean

ROOT = Path(__file__).resolve().parents[1]
STRATEGIES = tuple(BUILT_IN)
DEEP = 48
AUTO_LOSS = 0.03
FITTED = 100
PATIENCE = (
    "auto",
    "auto:patience=8",
    "auto:patience=16",
    "auto:patience=1000",
    "auto:patience=1000,headroom=0",
)
DEPTH, BREADTH = "chains:chains=16,turns=8", "best-of-n:n=128"
DEPTH_PUBLISHED = "1.10× against 0.65×"


@dataclass(frozen=True)
class Setting:
    """A budget every strategy gets."""

    name: str
    words: str
    axis: Axis
    limit: int
    beyond: bool
    """The full history has outgrown the context when the budget ends."""

    @property
    def budget(self) -> Budget:
        if self.axis == "tokens":
            return Budget(turns=None, tokens=self.limit, dollars=None)
        return Budget(turns=self.limit, tokens=None, dollars=None)


SETTINGS = (
    Setting("8 turns", "the full history still fits", "turns", 8, False),
    Setting(
        "20 turns", "the default budget; the full history outgrows the context", "turns", 20, True
    ),
    Setting(f"{DEEP} turns", "far beyond the context", "turns", DEEP, True),
    Setting("100 000 tokens", "the full history about fits", "tokens", 100_000, False),
    Setting("400 000 tokens", "the full history outgrows the context", "tokens", 400_000, True),
)


@dataclass(frozen=True)
class Check:
    """Something the strategies must hold, and whether they do in the simulation."""

    passed: bool
    words: str


def problems(count: int, seed: int) -> list[SimulatedProblem]:
    """`count` problems, as many of each family as of any other."""
    share = max(1, count // len(FAMILIES))
    return [p for family in FAMILIES.values() for p in problems_of(family, share, seed)]


def study(
    setting: Setting, runs: int, seed: int, strategies: Sequence[str] = STRATEGIES
) -> Comparison:
    """`runs` problems for each strategy, one run each."""
    chosen = problems(runs, seed)
    take = SimulatedRuns(chosen, setting.budget)
    names = [problem.name for problem in chosen]
    return compare(strategies, names, take, seeds=(seed,), simulated=True)


def patience(runs: int, seed: int) -> list[str]:
    """What `auto` loses by ending early: the same strategy with more patience."""
    lines = [
        "## What `auto` gains by going on",
        "",
        "It ends by itself (`patience`, `headroom`); these are the same runs with later ends.",
        "",
        "| strategy | budget | best score | over `auto` as it is | turns used | tokens used |",
        "|---|---|---|---|---|---|",
    ]
    for setting in (s for s in SETTINGS if s.axis == "turns" and s.beyond):
        comparison = study(setting, runs, seed, PATIENCE)
        for row in comparison.rows():
            ratio = comparison.ratio(row.strategy, "auto")
            lines.append(
                f"| {row.strategy} | {setting.name} | {row.worth.value:.3f}× "
                f"| {ratio.value:.3f}× [{ratio.low:.3f}, {ratio.high:.3f}] | {row.turns:.1f} "
                f"| {row.tokens / 1000:.0f}k |"
            )
    return [*lines, ""]


def depth(runs: int, seed: int) -> str:
    """A finding the simulation was not fitted to: refinement against samples at 128 calls."""
    setting = Setting("128 turns", "", "turns", 128, False)
    comparison = study(setting, runs, seed, (DEPTH, BREADTH))
    ratio = comparison.ratio(DEPTH, BREADTH)
    deep, broad = comparison.rows()
    agrees = "in direction only" if ratio.low > 1 else "**not at all**"
    return (
        f"Not fitted to: at 128 calls 16 trajectories of 8 turns beat 128 single samples (Kevin-32B, "
        f"{DEPTH_PUBLISHED}). The simulation shows this {agrees}: {deep.worth.value:.3f}× against {broad.worth.value:.3f}×, "
        f"ratio {ratio.value:.3f}× [{ratio.low:.3f}, {ratio.high:.3f}]."
    )


def fit(family: Family, seed: int) -> dict[str, list[float]]:
    """Percent of problems at each threshold, as `Family.published` counts them."""
    counted = {key: [0] * len(THRESHOLDS) for key in PUBLISHED_TURNS}
    chosen = list(problems_of(family, FITTED, seed))
    take = SimulatedRuns(chosen, Budget(turns=max(PUBLISHED_TURNS.values())))
    for problem in chosen:
        scores = scores_by_turn(take, problem.name, seed)
        seen = {key: scores.get(turns - 1, 0.0) for key, turns in PUBLISHED_TURNS.items()}
        seen["best"] = max(scores.values(), default=0.0)
        for key, score in seen.items():
            for place, threshold in enumerate(THRESHOLDS):
                counted[key][place] += score >= threshold
    return {key: [100 * n / FITTED for n in result] for key, result in counted.items()}


def scores_by_turn(take: SimulatedRuns, problem: str, seed: int) -> dict[int, float]:
    events = (logged.event for logged in take("window", problem, seed))
    return {e.turn: e.evaluation.score for e in events if isinstance(e, Evaluated)}


def checks(found: dict[str, Comparison]) -> list[Check]:
    """The three promises, each on numbers of these runs."""
    beyond = [setting for setting in SETTINGS if setting.beyond]
    return [*(window_check(s, found[s.name]) for s in beyond), auto_check(found), clones(found)]


def window_check(setting: Setting, comparison: Comparison) -> Check:
    ratio = comparison.ratio("window", "sequential", setting.axis, setting.limit)
    words = (
        f"`window` ≥ `sequential` at {setting.name}: {ratio.value:.3f}× "
        f"[{ratio.low:.3f}, {ratio.high:.3f}]"
    )
    return Check(ratio.value >= 1, words)


def auto_check(found: dict[str, Comparison]) -> Check:
    """Against the one strategy that is best on average over all settings."""
    mean = {name: mean_worth(name, found) for name in STRATEGIES}
    best = max((name for name in STRATEGIES if name != "auto"), key=mean.__getitem__)
    logs: dict[str, list[float]] = {}
    for setting in SETTINGS:
        for problem, log in log_ratios("auto", best, found[setting.name], setting).items():
            logs.setdefault(problem, []).append(log)
    ratio = geometric_mean(logs)
    beatable = geometric_mean({p: found_logs for p, found_logs in logs.items() if any(found_logs)})
    words = (
        f"`auto` within {AUTO_LOSS:.0%} of the best single strategy (`{best}`) on average over the "
        f"settings: {ratio.value:.3f}× [{ratio.low:.3f}, {ratio.high:.3f}]; on the problems where the "
        f"two ever differ: {beatable.value:.3f}× [{beatable.low:.3f}, {beatable.high:.3f}]"
    )
    return Check(ratio.value >= 1 - AUTO_LOSS, words)


def log_ratios(one: str, other: str, comparison: Comparison, setting: Setting) -> dict[str, float]:
    """By problem: ln of what `one` is worth over `other` at the setting's limit."""
    worth_of = {
        name: {
            run.problem: run.worth_at(setting.axis, setting.limit) for run in comparison.of(name)
        }
        for name in (one, other)
    }
    return {p: math.log(worth_of[one][p] / worth_of[other][p]) for p in worth_of[one]}


def mean_worth(strategy: str, found: dict[str, Comparison]) -> float:
    """Geometric mean over the settings, each read at its limit."""
    logs = [math.log(worth(strategy, found[s.name], s)) for s in SETTINGS]
    return math.exp(sum(logs) / len(logs))


def worth(strategy: str, comparison: Comparison, setting: Setting) -> float:
    rows = comparison.rows(setting.axis, setting.limit, resamples=1)
    return next(row.worth.value for row in rows if row.strategy == strategy)


def clones(found: dict[str, Comparison]) -> Check:
    runs = [run for comparison in found.values() for run in comparison.runs]
    count = sum(run.duplicates for run in runs)
    evaluated = sum(run.evaluated for run in runs)
    return Check(count == 0, f"duplicates evaluated: {count} of {evaluated} evaluations")


def section(setting: Setting, comparison: Comparison) -> list[str]:
    """One setting's table."""
    lines = [
        f"## {setting.name}: {setting.words}",
        "",
        "| strategy | best score | 95 % interval | over `sequential` | correct | turns used "
        "| tokens used | void turns | duplicates evaluated |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in comparison.rows(setting.axis, setting.limit):
        ratio = comparison.ratio(row.strategy, "sequential", setting.axis, setting.limit)
        lines.append(
            f"| {row.strategy} | {row.worth.value:.3f}× | {row.worth.low:.3f}–{row.worth.high:.3f} "
            f"| {ratio.value:.3f}× [{ratio.low:.3f}, {ratio.high:.3f}] | {row.correct:.0%} "
            f"| {row.turns:.1f} | {row.tokens / 1000:.0f}k | {row.void:.1f} | {row.duplicates} |"
        )
    return [*lines, ""]


def fits(seed: int) -> list[str]:
    """How near the simulated writer comes to the published shares."""
    lines = [
        "| problems | read at | published ≥ 1 / 1.2 / 1.5 × eager | simulated |",
        "|---|---|---|---|",
    ]
    for family in FAMILIES.values():
        for key, shares in fit(family, seed).items():
            published = " / ".join(f"{share:.1f}" for share in family.published[key])
            ours = " / ".join(f"{share:.0f}" for share in shares)
            read = f"{key}, {PUBLISHED_TURNS[key]} turns"
            lines.append(f"| {family.name} | {read} | {published} % | {ours} % |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=240, help="runs per strategy and setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, default=None)
    parser.add_argument("--svg", type=Path, default=None, help="the curve at the deepest setting")
    arguments = parser.parse_args()
    began, used = time.perf_counter(), time.process_time()
    result = {s.name: study(s, arguments.runs, arguments.seed) for s in SETTINGS}
    wall, core = time.perf_counter() - began, time.process_time() - used
    count = sum(len(comparison.runs) for comparison in result.values())
    verdicts = checks(result)
    lines = [
        "# Strategies, simulated",
        "",
        f"**{NOTHING_REAL}.** `python -m benchmarks.strategies --runs {arguments.runs} --seed "
        f"{arguments.seed}`, {platform.machine()}, Python {platform.python_version()}: {count} runs, "
        f"{60 * count / core:.0f} a minute of one core ({60 * count / wall:.0f} a minute of wall time).",
        "",
        "Best score: geometric mean over problems of the best accepted score, 1 where nothing beats "
        "eager; intervals: bootstrap over problems. Ratios are taken problem by problem.",
        "",
        "## Checks",
        "",
        *(f"- {'passed' if check.passed else '**FAILED**'}: {check.words}" for check in verdicts),
        "",
        *(line for s in SETTINGS for line in section(s, result[s.name])),
        *patience(arguments.runs, arguments.seed),
        "## How near the simulated writer comes to what is published",
        "",
        "Dr. Kernel (2602.05885), its 14B model; `window` strategy, "
        f"{FITTED} simulated problems a level. Where the two differ, so does the simulation.",
        "",
        *fits(arguments.seed),
        "",
        depth(max(1, arguments.runs // 4), arguments.seed),
    ]
    print("\n".join(lines))
    if arguments.write is not None:
        arguments.write.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if arguments.svg is not None:
        deep = result[f"{DEEP} turns"].curves("turns")
        picture = svg(deep, title=f"{DEEP} turns, {arguments.runs} problems", warning=NOTHING_REAL)
        arguments.svg.write_text(picture, encoding="utf-8")
    sys.exit(0 if all(check.passed for check in verdicts) else 1)


if __name__ == "__main__":
    main()
