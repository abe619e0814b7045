"""A training run that learns on two cores: TRLOO + PR + PRS beside what it could be confused with.

    python -m benchmarks.small_training [--seeds N] [--steps N] [--write FILE]
    python -m benchmarks.small_training --judge      # every program that has no verdict yet
    python -m benchmarks.small_training --recheck 6  # a sample, judged anew, against the kept ones

Verdicts are the judge's, on the virtual device; they are kept in `benchmarks/results/`, so that the
curves run again in two minutes and `--judge` alone takes minutes.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.rewards import reward
from kernelagent.loop.run_setup import judge_settings
from kernelagent.report.charts.anytime import Labels, anytime_svg
from kernelagent.report.charts.series import Point, Series
from kernelagent.tools.judge_client import JudgeProcess
from kernelagent.training.environment import Judges, KernelEnv
from kernelagent.training.small.judged import Verdicts
from kernelagent.training.small.language import TASKS, Sentence, problem_file, sentences
from kernelagent.training.small.trial import (
    EXAMINED,
    RECIPES,
    Learnt,
    Searched,
    interval,
    most_envs,
    search,
    shortened,
    train,
)

KEPT = Path(__file__).parent / "results" / "small_training_verdicts.jsonl"
CONFIG = RunConfig(device="virtual")
SEARCH = "random search"


@dataclass(frozen=True)
class Study:
    """All seeds of all recipes, and random search at as many evaluations."""

    runs: tuple[Learnt, ...]
    searches: tuple[Searched, ...]
    seconds: float
    """CPU time of the whole study."""

    def of(self, recipe: str) -> list[Learnt]:
        return [run for run in self.runs if run.recipe == recipe]


def kept_verdicts(path: Path = KEPT) -> Verdicts:
    """The verdicts on disk; what is missing is judged by a judge process of its own."""
    return Verdicts(path, _real_judge)


def _real_judge(task: str) -> JudgeProcess:
    return JudgeProcess(judge_settings(ProblemSpec(path=str(problem_file(task))), CONFIG))


def study(verdicts: Verdicts, seeds: int, steps: int) -> Study:
    """Every recipe and random search, `seeds` times, over the same judges."""
    recipes = [shortened(recipe, steps) for recipe in RECIPES]
    judges = Judges(lambda spec: verdicts.judge(Path(spec.path or "").stem))
    count = most_envs(recipes)
    envs = [KernelEnv(CONFIG, turns=recipes[0].turns, judges=judges) for _ in range(count)]
    begun = time.process_time()
    runs = tuple(train(recipe, seed, envs) for recipe in recipes for seed in range(seeds))
    searches = tuple(search(recipes[0], seed, envs) for seed in range(seeds))
    return Study(runs, searches, time.process_time() - begun)


def differing(verdicts: Verdicts, sample: int, seed: int) -> list[str]:
    """Which of a random sample of kept verdicts the judge would not give today, in a sentence each."""
    dice = random.Random(seed)
    drawn = dice.sample([s for task in TASKS for s in sentences(task)], sample)
    return [message for s in drawn if (message := _difference(verdicts, s)) is not None]


def _difference(verdicts: Verdicts, sentence: Sentence) -> str | None:
    kept = verdicts.of(sentence.task, sentence.candidate)
    fresh = verdicts.fresh(sentence.task, sentence.candidate)
    if _essence(kept) == _essence(fresh):
        return None
    return f"{sentence.task} {sentence}: kept {_essence(kept)}, now {_essence(fresh)}"


def _essence(found: Evaluation) -> tuple[str, str | None, float]:
    code = found.reason.code if found.reason else None
    # What lies beside an array is drawn anew: a program that reads it is wrong in one way or the other.
    code = "wrong_output" if code == "nonfinite" else code
    return found.verdict, code, round(reward(found), 6)


def judge_all(verdicts: Verdicts) -> None:
    """Every program of the language, those with a verdict aside."""
    for task in TASKS:
        verdicts.judge(task)
        for sentence in sentences(task):
            before = verdicts.judged
            result = verdicts.of(task, sentence.candidate)
            if verdicts.judged > before:
                print(f"{task} {sentence}: {_essence(result)}", flush=True)
        verdicts.save()


def written(found: Study, verdicts: Verdicts, command: str) -> str:
    """The study as Markdown."""
    seeds = len(found.searches)
    steps = len(found.runs[0].curve)
    recipe = replace(RECIPES[0], steps=steps)
    ours = found.of(RECIPES[0].name)
    above = [run.trained.reward > run.untrained.reward for run in ours]
    beside = [
        run.trained.reward > item.reward for run, item in zip(ours, found.searches, strict=True)
    ]
    lines = [
        "# A training run on two cores",
        "",
        f"Made by `{command}`:",
        f"{seeds} seeds, {steps} steps of {len(TASKS)} × {recipe.group} episodes with "
        f"{recipe.turns} turns each, {recipe.evaluations} evaluations a run; "
        f"{found.seconds:.0f} s of CPU for all.",
        f"{len(verdicts)} distinct programs, each judged once on the virtual device "
        f"({torch.get_num_threads()} threads of torch).",
        "Nothing was timed: a reward is correctness + coverage, 2 at most. A repeat within an "
        "episode is worth 0.",
        "Examined: "
        f"{EXAMINED} episodes of each task before and after; intervals are Student's 95 % over seeds.",
        "",
        "| recipe | untrained | trained | first turns | accepted | of all turns lazy |",
        "|---|---|---|---|---|---|",
        *(_row(found.of(recipe.name)) for recipe in RECIPES),
        f"| {SEARCH}, all it wrote | | {_spelled([s.reward for s in found.searches])} | | | |",
        "",
        f"- {RECIPES[0].name}: above the untrained policy in {sum(above)} of {seeds} seeds, above "
        f"the mean of random search at the same number of evaluations in {sum(beside)} of {seeds}.",
        *(_apart(found, recipe.name) for recipe in RECIPES[1:]),
        "- Best program that random search found, mean over the tasks: "
        f"{_spelled([s.best for s in found.searches])}. In a space of {len(verdicts)} programs a "
        "search that remembers its best",
        "  finds what there is to find; what is learnt here is to *write* good programs, and a "
        "different one when the first was judged.",
        "- Lazy: accepted with coverage below 0.3, a kernel for the last operation alone.",
        "",
        "By seed, trained / untrained / random search: "
        + "; ".join(
            f"{run.trained.reward:.3f} / {run.untrained.reward:.3f} / {item.reward:.3f}"
            for run, item in zip(ours, found.searches, strict=True)
        )
        + ".",
        "",
        "![mean reward by evaluations](small_training.svg)",
    ]
    return "\n".join(lines) + "\n"


def _row(runs: Sequence[Learnt]) -> str:
    columns = [
        [run.untrained.reward for run in runs],
        [run.trained.reward for run in runs],
        [run.trained.first for run in runs],
        [run.trained.accepted for run in runs],
        [run.trained.lazy for run in runs],
    ]
    return f"| {runs[0].recipe} | " + " | ".join(_spelled(column) for column in columns) + " |"


def _apart(found: Study, other: str) -> str:
    pairs = zip(found.of(RECIPES[0].name), found.of(other), strict=True)
    apart = [ours.trained.reward - theirs.trained.reward for ours, theirs in pairs]
    _, low, high = interval(apart)
    message = "" if low > 0 or high < 0 else "; the interval holds 0, so nothing is shown"
    return f"- {RECIPES[0].name} minus {other}, by seed: {_spelled(apart)}{message}."


def _spelled(values: Sequence[float]) -> str:
    middle, low, high = interval(values)
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def drawn(found: Study) -> str:
    """The curves as SVG: mean reward of each batch, with the interval over seeds."""
    recipe = RECIPES[0]
    batch = recipe.evaluations // recipe.steps
    curves = {r.name: [run.curve for run in found.of(r.name)] for r in RECIPES}
    curves[SEARCH] = [item.curve for item in found.searches]
    series = [_series(name, by_seed, batch) for name, by_seed in curves.items()]
    labels = Labels(
        f"A tiny policy learns to write kernels, {len(found.searches)} seeds",
        "evaluations",
        "mean reward, correctness + coverage",
        "virtual device: nothing was timed; bands are 95 % over seeds",
        least_step=1.0,
    )
    return anytime_svg(series, labels)


def _series(name: str, by_seed: Sequence[Sequence[float]], batch: int) -> Series:
    points = [Point(*interval(values)) for values in zip(*by_seed, strict=True)]
    return Series(name, tuple(batch * (i + 1) for i in range(len(points))), tuple(points))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=RECIPES[0].steps)
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--recheck", type=int, metavar="N")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    verdicts = kept_verdicts()
    try:
        if given.judge:
            judge_all(verdicts)
        elif given.recheck is not None:
            _recheck(verdicts, given.recheck)
        else:
            _run(verdicts, given.seeds, given.steps, given.write)
    finally:
        verdicts.close()


def _recheck(verdicts: Verdicts, sample: int) -> None:
    result = differing(verdicts, sample, seed=int(time.time()))
    print("\n".join(result) or f"{sample} verdicts judged anew, none differs")
    if result:
        sys.exit(1)


def _run(verdicts: Verdicts, seeds: int, steps: int, path: Path | None) -> None:
    result = study(verdicts, seeds, steps)
    if verdicts.judged:
        verdicts.save()
    command = f"python -m benchmarks.small_training --seeds {seeds} --steps {steps}"
    command += f" --write benchmarks/results/{path.name}" if path is not None else ""
    text = written(result, verdicts, command)
    print(text)
    if path is not None:
        path.write_text(text, encoding="utf-8")
        path.with_suffix(".svg").write_text(drawn(result), encoding="utf-8")


if __name__ == "__main__":
    main()
