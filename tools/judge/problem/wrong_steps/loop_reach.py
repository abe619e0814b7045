"""How many rounds later it shows what one round of a reference's loop has changed, in the calls of a judging.

A candidate that goes through a long recurrence in blocks, and looks back a little before each, is right on inputs that
are forgotten soon. How far back a call reaches is measured: one answer of a round is exchanged for that of another.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.wrong_steps.followed import (
    Following,
    Step,
    most_steps,
    settings_kept,
)
from kernelagent.tools.judge.problem.wrong_steps.noticed import differs

FEWEST_ROUNDS = 8
_BEGINS_WITHIN = 4
"""The round that is changed is among the first of so many parts."""
_FAR = 0.6
"""Of a loop's rounds: what reaches so far is not told of."""
_ENOUGH_CALLS = 10
"""What has handed nothing on, or always as far, in so many calls does not do otherwise."""
_WORTH = 1.5
"""Times as far as before: worth a call more."""
_MOST_BYTES = 64 << 20
_EXCHANGES = 2
"""In one call."""


_Tensors = list[torch.Tensor]


@dataclass
class LoopReach:
    """The furthest that was seen so far, for each loop; grows call by call."""

    file: str | None
    """Of the forward; None: there is no text to follow."""
    most_seconds: float
    """Of processor time, for all calls."""
    worked: Callable[[], float] = process_time
    below: Callable[[int], int] = secrets.randbelow
    _furthest: dict[int, int] = field(default_factory=dict)
    """By the rounds of a loop."""
    _nearest: dict[int, int] = field(default_factory=dict)
    """The least that was more than nothing."""
    _lines: dict[int, int] = field(default_factory=dict)
    _spent: float = 0.0
    _calls: int = 0

    def note(self, oracle: Oracle, arguments: Arguments) -> None:
        """One more call was judged."""
        if self._spent >= self.most_seconds or self._all_far():
            return
        if self._calls >= _ENOUGH_CALLS and self.is_known:
            return
        self._calls += 1
        began = self.worked()
        self.take(self.of_call(oracle, arguments))
        self._spent += self.worked() - began

    def take(self, reached: Mapping[int, int]) -> None:
        """A call reaches so far."""
        for rounds, reach in reached.items():
            self._furthest[rounds] = max(self._furthest.get(rounds, 0), reach)
            if reach:
                self._nearest[rounds] = min(self._nearest.get(rounds, reach), reach)

    def is_further(self, reached: Mapping[int, int]) -> bool:
        """Whether a call that reaches so far is worth making."""
        return any(
            reached.get(rounds, 0) >= _WORTH * reach + 1 for rounds, reach in self._near().items()
        )

    def of_call(self, oracle: Oracle, arguments: Arguments) -> dict[int, int]:
        """How far one call reaches, by the rounds of a loop; empty where there is no loop, or no answer."""
        try:
            return self._of_call(oracle, arguments)
        except (*REFUSALS, MemoryError):
            return {}

    def _of_call(self, oracle: Oracle, arguments: Arguments) -> dict[int, int]:
        assert self.file is not None
        right = _Answers(self.file)
        with right:
            oracle.eager(arguments)
        looped = [step for step, answers in right.by_step.items() if len(answers) >= FEWEST_ROUNDS]
        reached: dict[int, int] = {}
        for _ in range(_EXCHANGES if looped else 0):
            step = looped[self.below(len(looped))]
            answers = right.by_step[step]
            rounds = len(answers)
            at = self.below(max(1, rounds // _BEGINS_WITHIN))
            exchange = step, at, answers[self.below(rounds)]
            exchanged = _Answers(self.file, exchange, most_steps(right.count))
            with settings_kept(), exchanged:
                oracle.eager(arguments)
            alike = [one for one in looped if len(right.by_step[one]) == rounds]
            reach = max(
                _reach(right.by_step[one], exchanged.by_step.get(one, []), at) for one in alike
            )
            reached[rounds] = max(reached.get(rounds, 0), reach)
            self._lines[rounds] = min(right.lines[one] for one in alike)
        return reached

    @property
    def is_known(self) -> bool:
        """Whether there is nothing to look for: no loop hands anything on, or what does reaches far."""
        return not self._near()

    def _all_far(self) -> bool:
        far = [reach >= _FAR * (rounds - 1) for rounds, reach in self._furthest.items()]
        return bool(far) and all(far)

    def _near(self) -> dict[int, int]:
        """Of loops that hand something on, never far; one that always reaches as far, as a filter does, cannot further."""
        return {
            rounds: reach
            for rounds, reach in self._furthest.items()
            if self._nearest.get(rounds, reach) < reach < _FAR * (rounds - 1)
        }

    def sentence(self) -> str | None:
        """What to tell of them; None: no loop hands anything on, or what does reaches far."""
        near = self._near()
        if not near:
            return None
        said = [
            f"line {self._lines[rounds]} (of {rounds} rounds): {reach} rounds later"
            for rounds, reach in near.items()
        ]
        return (
            f"what one round of a loop of your module changes showed at most so far, in the {self._calls} judged calls that were "
            f"looked at: {'; '.join(said)}; a candidate that looks no further back may be wrong on inputs that matter longer"
        )


class _Answers(Following):
    """Keeps the tensors that each step answers, in order; `exchange`: a step, a round, and what it answers there instead."""

    def __init__(
        self, file: str, exchange: tuple[Step, int, _Tensors] | None = None, most: int | None = None
    ) -> None:
        super().__init__(file, self._kept, most)
        self.by_step: dict[Step, list[_Tensors]] = {}
        self.lines: dict[Step, int] = {}
        self._exchange = exchange
        self._bytes = 0

    def _kept(self, frame: Any, step: Step, times: int, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if self._exchange is not None and self._exchange[:2] == (step, times):
            result = _exchanged(result, self._exchange[2])
        leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self._bytes += sum(leaf.numel() * leaf.element_size() for leaf in leaves)
        if self._bytes <= _MOST_BYTES and not any(map(_is_of_a_transform, leaves)):
            # A later round may write into it.
            self.by_step.setdefault(step, []).append([leaf.detach().clone() for leaf in leaves])
            self.lines[step] = frame.f_lineno
        return result


def _exchanged(result: Any, other: _Tensors) -> Any:
    """The same tree with these tensors in it, where all of them fit."""
    leaves, form = tree_flatten(result)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if [(leaf.shape, leaf.dtype) for leaf in tensors] != [
        (leaf.shape, leaf.dtype) for leaf in other
    ]:
        return result
    following = iter(other)
    changed = [
        next(following).clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ]
    return tree_unflatten(changed, form)


def _is_of_a_transform(tensor: torch.Tensor) -> bool:
    """One that `torch.vmap` and its like make lives as long as their function runs."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _reach(right: list[_Tensors], other: list[_Tensors], at: int) -> int:
    """Rounds from `at` to the last whose answers differ."""
    last = 0
    for later, (one, two) in enumerate(zip(right, other, strict=False)):
        if later > at and differs(one, two):
            last = later - at
    return last
