"""The estimators again, as slowly and literally as their equations read; shares no code with ours."""

from __future__ import annotations

import math
import random


def gain(rewards, t, gamma):
    """G_t as the sum Σ_k γ^k R_{t+k}."""
    return sum(gamma**k * rewards[t + k] for k in range(len(rewards) - t))


def others(group, mask, i, t, gamma, *, with_self):
    return [
        gain(row, t, gamma)
        for j, row in enumerate(group)
        if t < len(row) and mask[j][t] and (with_self or j != i)
    ]


def trloo(group, gamma, mask):
    result = []
    for i, row in enumerate(group):
        advantages = []
        for t in range(len(row)):
            if not mask[i][t]:
                advantages.append(0.0)
                continue
            rest = others(group, mask, i, t, gamma, with_self=False)
            base = sum(rest) / len(rest) if rest else 0.0
            advantages.append(gain(row, t, gamma) - base)
        result.append(advantages)
    return result


def grpo(group, gamma, mask, by_std, epsilon):
    result = []
    for i, row in enumerate(group):
        advantages = []
        for t in range(len(row)):
            if not mask[i][t]:
                advantages.append(0.0)
                continue
            every = others(group, mask, i, t, gamma, with_self=True)
            mean = sum(every) / len(every)
            apart = gain(row, t, gamma) - mean
            if by_std:
                square = sum((g - mean) ** 2 for g in every)
                std = math.sqrt(square / (len(every) - 1)) if len(every) > 1 else 0.0
                apart /= std + epsilon
            advantages.append(apart)
        result.append(advantages)
    return result


def keep(trainer, rollout, lower, upper, veto):
    """By products of probabilities where ours adds logarithms."""
    ratios = [math.exp(t) / math.exp(r) for t, r in zip(trainer, rollout, strict=True)]
    if not ratios:
        return lower <= 1.0 <= upper
    if min(ratios) < veto:
        return False
    product = 1.0
    for ratio in ratios:
        product *= ratio ** (1.0 / len(ratios))
    return lower <= product <= upper


def loss(new, old, advantage, low, high, c):
    """By cases: which of the three slopes holds at this ratio."""
    ratio = math.exp(new - old)
    if advantage >= 0:
        return -advantage * (1 + high) if ratio > 1 + high else -advantage * ratio
    if ratio < 1 - low:
        return -advantage * (1 - low)
    return -advantage * min(ratio, c)


def aggregate(losses, mask, how):
    kept = [
        [x for x, k in zip(row, ks, strict=True) if k] for row, ks in zip(losses, mask, strict=True)
    ]
    full = [row for row in kept if row]
    tokens = [x for row in full for x in row]
    if not tokens:
        return 0.0
    if how == "token-mean":
        return sum(tokens) / len(tokens)
    if how == "seq-mean-token-sum":
        return sum(sum(row) for row in full) / len(full)
    if how == "seq-mean-token-mean":
        return sum(sum(row) / len(row) for row in full) / len(full)
    return sum(tokens) / max(len(row) for row in losses)


def random_group(dice: random.Random):
    """A ragged group with a mask: 1 to 6 trajectories of 0 to 5 turns."""
    group = [
        [dice.choice([0.0, dice.uniform(0, 5)]) for _ in range(dice.randint(0, 5))]
        for _ in range(dice.randint(1, 6))
    ]
    return group, [[dice.random() < 0.8 for _ in row] for row in group]
