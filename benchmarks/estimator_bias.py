"""GRPO's self-inclusion bias, and TRLOO's absence of it, where the gradient is known exactly.

`python -m benchmarks.estimator_bias [--groups N] [--write FILE]`

The problem: up to three turns, three actions each, softmax policies with one vector θ_t a turn. The
reward of a turn depends on its action and the one before it. Expectations are exact sums over all
action sequences; the estimates run the functions that are shipped on sampled groups. Three cases:
every trajectory has all turns (N_t = N); lengths are fixed and differ (N_t differs by turn); a
trajectory ends when it takes the last action (N_t is random).
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelagent.training.advantages import grpo, trloo

TURNS, ACTIONS = 3, 3
LOGITS = np.array([[0.6, -0.2, -0.4], [-0.3, 0.5, -0.2], [0.1, -0.6, 0.5]])
FIRST = np.array([0.2, 1.0, 2.0])
REWARDS = np.array([[0.0, 1.5, 0.3], [1.0, 0.2, 2.2], [0.4, 0.9, 0.1]])
"""By the action before, by the action: deliberately not additive."""
POLICY = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
STOP = ACTIONS - 1
Advantages = Callable[[Sequence[Sequence[float]]], list[list[float]]]


@dataclass(frozen=True)
class Case:
    """How many trajectories a group has, and how long each is."""

    name: str
    lengths: tuple[int, ...]
    stops: bool = False

    @property
    def n(self) -> int:
        return len(self.lengths)


CASES = (
    Case("N = 2, all turns", (3, 3)),
    Case("N = 4, all turns", (3,) * 4),
    Case("N = 8, all turns", (3,) * 8),
    Case("N = 5, 3, 2 by turn", (3, 3, 2, 1, 1)),
    Case("N = 4, a trajectory may stop", (3,) * 4, stops=True),
)


def rewards_of(actions: Sequence[int]) -> list[float]:
    pairs = itertools.pairwise(actions)
    return [float(FIRST[actions[0]]), *(float(REWARDS[a, b]) for a, b in pairs)]


def sequences(length: int, *, stops: bool) -> list[tuple[tuple[int, ...], float]]:
    """All action sequences of a trajectory, with their probabilities."""
    result: list[tuple[tuple[int, ...], float]] = []
    for actions in itertools.product(range(ACTIONS), repeat=length):
        if stops and STOP in actions[:-1]:
            continue
        result.append((actions, math.prod(POLICY[t, a] for t, a in enumerate(actions))))
    if stops:
        for shorter in range(1, length):
            for head in itertools.product(range(STOP), repeat=shorter - 1):
                actions = (*head, STOP)
                result.append((actions, math.prod(POLICY[t, a] for t, a in enumerate(actions))))
    return result


def score(actions: Sequence[int], t: int) -> np.ndarray:
    """∇_θt log π(a_t)."""
    return np.eye(ACTIONS)[actions[t]] - POLICY[t]


def true_gradient(case: Case) -> np.ndarray:
    """∇_θt of the mean over the group of each trajectory's expected return; (turns, actions)."""
    gradient = np.zeros((TURNS, ACTIONS))
    for length in case.lengths:
        for actions, chance in sequences(length, stops=case.stops):
            gain = sum(rewards_of(actions))
            for t in range(len(actions)):
                gradient[t] += chance * gain * score(actions, t) / case.n
    return gradient


def expected_factor(case: Case) -> list[float]:
    """By turn: what GRPO without std multiplies ∇J with, 1 − E[1/N_t | the trajectory has turn t]."""
    factors = []
    for t in range(TURNS):
        if not case.stops:
            factors.append(1 - 1 / sum(t < length for length in case.lengths))
            continue
        p = math.prod(1 - POLICY[s, STOP] for s in range(t))
        factors.append(1 - (1 - (1 - p) ** case.n) / (case.n * p))
    return factors


def sample(case: Case, dice: random.Random) -> list[list[int]]:
    group = []
    for length in case.lengths:
        actions: list[int] = []
        while len(actions) < length and not (case.stops and actions and actions[-1] == STOP):
            actions.append(dice.choices(range(ACTIONS), POLICY[len(actions)].tolist())[0])
        group.append(actions)
    return group


def one_estimate(group: Sequence[Sequence[int]], advantages: Advantages) -> np.ndarray:
    """g_t = (1/N) Σ_i A_{i,t} ∇_θt log π(a_{i,t}) of one group."""
    result = np.zeros((TURNS, ACTIONS))
    for actions, row in zip(group, advantages([rewards_of(a) for a in group]), strict=True):
        for t, advantage in enumerate(row):
            result[t] += advantage * score(actions, t) / len(group)
    return result


@dataclass(frozen=True)
class Row:
    """One turn's factor c in E[g_t] = c · ∇_θt J, estimated by projection on ∇J."""

    case: str
    estimator: str
    turn: int
    expected: float
    factor: float
    half_width: float
    """Of the 99 % Monte-Carlo interval."""

    @property
    def holds(self) -> bool:
        return abs(self.factor - self.expected) <= self.half_width

    @property
    def unbiased(self) -> bool:
        return abs(self.factor - 1.0) <= self.half_width


def grpo_without_std(group: Sequence[Sequence[float]]) -> list[list[float]]:
    return grpo(group, by_std=False)


def measure(case: Case, groups: int, seed: int = 0) -> list[Row]:
    """Both estimators on the same sampled groups."""
    dice = random.Random(f"{case.name} {seed}")
    sampled = [sample(case, dice) for _ in range(groups)]
    truth = true_gradient(case)
    rows = []
    for name, advantages, expected in (
        ("GRPO without std", grpo_without_std, expected_factor(case)),
        ("TRLOO", trloo, [1.0] * TURNS),
    ):
        result = np.array([one_estimate(group, advantages) for group in sampled])
        for t in range(TURNS):
            along = result[:, t] @ truth[t] / (truth[t] @ truth[t])
            half = 2.576 * float(along.std(ddof=1)) / math.sqrt(groups)
            rows.append(Row(case.name, name, t, expected[t], float(along.mean()), half))
    return rows


def table(rows: Sequence[Row], groups: int) -> str:
    lines = [
        "# What GRPO's baseline costs, measured",
        "",
        "Made by `python -m benchmarks.estimator_bias --write benchmarks/results/estimator_bias.md`, "
        f"{groups} groups a case,",
        "seeded. c is the factor in E[g_t] = c · ∇J_t, with its 99 % Monte-Carlo interval; ∇J is "
        "summed exactly over all",
        "action sequences. Unbiased means c = 1. GRPO without std has c = 1 − E[1/N_t], with N_t the "
        "trajectories that have turn t.",
        "",
        "| case | estimator | turn | c by the equation | c measured | as the equation says | unbiased |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.case} | {r.estimator} | {r.turn} | {r.expected:.4f} | {r.factor:.4f} ± "
        f"{r.half_width:.4f} | {'yes' if r.holds else 'NO'} | {'yes' if r.unbiased else 'no'} |"
        for r in rows
    ]
    held = sum(r.holds for r in rows)
    lines += ["", f"{held} of {len(rows)} intervals hold the equation's value (99 % each)."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=40_000)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    rows = [row for case in CASES for row in measure(case, given.groups)]
    text = table(rows, given.groups)
    print(text)
    if given.write is not None:
        given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
