"""Whether two results are the same, bit for bit, and whether a call changes the module's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from kernelagent.tools.judge.problem.reference.copies import same_bits
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare import compare


def identical(left: Any, right: Any) -> bool:
    """The same values in the same places, bit for bit."""
    ours, theirs = list(compare.leaves(left)), list(compare.leaves(right))
    return [name for name, _ in ours] == [name for name, _ in theirs] and all(
        same_bits_of(a, b) for (_, a), (_, b) in zip(ours, theirs, strict=True)
    )


def same_bits_of(left: Any, right: Any) -> bool:
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return type(left) is type(right) and bool(left == right)
    return same_bits(left.detach().cpu(), right.detach().cpu())


def changes_state(trial: Trial, weights: Mapping[str, torch.Tensor]) -> bool:
    return any(
        not same_bits_of(weights[name], after)
        for name, after in trial.expected.state.items()
        if name in weights
    )
