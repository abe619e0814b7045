"""What is compared: recipes and random search at equal evaluations, seed by seed."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from kernelagent.training.small.language import SLOTS, TASKS, Sentence, problem_file
from kernelagent.training.small.learning import LAZY, Episode, Recipe, learn, play
from kernelagent.training.small.policy import Policy

if TYPE_CHECKING:
    from kernelagent.training.environment import KernelEnv

RECIPES = (
    Recipe("TRLOO + PR + PRS"),
    Recipe("GRPO + PR + PRS", estimator="grpo"),
    Recipe("TRLOO + PR, no PRS", prs=False),
    Recipe("TRLOO, repeats masked", learn_from_repeats=False),
)
EXAMINED = 64
"""Episodes of each task a policy is examined on."""
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""Student's t, two-sided 95 %, by the number of seeds."""


@dataclass(frozen=True)
class Outcome:
    """What a policy's episodes were worth, over all turns."""

    reward: float
    """Mean by turn, 0 to 2: there is no speedup term where nothing is timed."""
    accepted: float
    lazy: float
    """Share of turns that were accepted with coverage below 0.3."""
    first: float
    """Mean reward of first turns."""


@dataclass(frozen=True)
class Learnt:
    """One recipe, one seed."""

    recipe: str
    seed: int
    curve: tuple[float, ...]
    """Mean reward of each batch as it was written, before it was learnt from."""
    untrained: Outcome
    trained: Outcome


@dataclass(frozen=True)
class Searched:
    """Uniform random sentences through the same environment, as many as a training run evaluates."""

    seed: int
    curve: tuple[float, ...]
    reward: float
    """Mean by turn of everything it wrote."""
    best: float
    """The best reward it found, mean over the tasks."""


def train(recipe: Recipe, seed: int, envs: Sequence[KernelEnv]) -> Learnt:
    """A policy from scratch to the end of the recipe; `envs` are at least `most_envs` many."""
    policy = Policy(seed)
    dice = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=recipe.rate)
    untrained = examine(policy, recipe, seed, envs)
    tasks = [task for task in TASKS for _ in range(recipe.group)]
    curve = []
    for _ in range(recipe.steps):
        episodes = play(policy, envs[: len(tasks)], tasks, recipe, dice)
        curve.append(mean_reward(episodes))
        learn(policy, optimizer, episodes, recipe)
    trained = examine(policy, recipe, seed, envs)
    return Learnt(recipe.name, seed, tuple(curve), untrained, trained)


def examine(policy: Policy, recipe: Recipe, seed: int, envs: Sequence[KernelEnv]) -> Outcome:
    """Sampled as in training, with its own random generator; nothing is learnt."""
    dice = torch.Generator().manual_seed(1_000_003 + seed)
    tasks = [task for task in TASKS for _ in range(EXAMINED)]
    episodes = play(policy, envs[: len(tasks)], tasks, recipe, dice)
    turns = [turn for episode in episodes for turn in episode.turns]
    return Outcome(
        reward=statistics.fmean(turn.reward for turn in turns),
        accepted=statistics.fmean(turn.accepted for turn in turns),
        lazy=statistics.fmean(turn.accepted and turn.coverage < LAZY for turn in turns),
        first=statistics.fmean(episode.turns[0].reward for episode in episodes),
    )


def search(recipe: Recipe, seed: int, envs: Sequence[KernelEnv]) -> Searched:
    """Random search over the same number of turns, in episodes of the same form."""
    dice = random.Random(f"search {seed}")
    best = dict.fromkeys(TASKS, 0.0)
    curve = []
    for _ in range(recipe.steps):
        rewards = []
        for env, task in zip(envs, [t for t in TASKS for _ in range(recipe.group)], strict=False):
            env.reset(str(problem_file(task)))
            for _ in range(recipe.turns):
                words = tuple(dice.choice(slot) for slot in SLOTS)
                rewards.append(env.step(Sentence(task, words).reply).reward)
                best[task] = max(best[task], rewards[-1])
        curve.append(statistics.fmean(rewards))
    result = statistics.fmean(best.values())
    return Searched(seed, tuple(curve), statistics.fmean(curve), result)


def shortened(recipe: Recipe, steps: int) -> Recipe:
    """The same, with fewer steps."""
    return replace(recipe, steps=steps)


def most_envs(recipes: Sequence[Recipe]) -> int:
    """Environments that `train`, `examine` and `search` need."""
    return len(TASKS) * max(EXAMINED, *(recipe.group for recipe in recipes))


def mean_reward(episodes: Sequence[Episode]) -> float:
    """By turn, over all episodes."""
    return statistics.fmean(turn.reward for episode in episodes for turn in episode.turns)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean over seeds with Student's 95 % interval; the value itself where there is one."""
    middle = statistics.fmean(values)
    if len(values) < 2:
        return middle, middle, middle
    half = T_95.get(len(values), 1.96) * statistics.stdev(values) / math.sqrt(len(values))
    return middle, middle - half, middle + half
