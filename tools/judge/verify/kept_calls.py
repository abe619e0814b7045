"""Judged calls that are kept to be made again: one of each kind, as far as memory goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch

from kernelagent.tools.judge.problem.trials.interpreted_work import bytes_in
from kernelagent.tools.judge.problem.trials.rounds import Trial

_MOST_BYTES = 128 << 20
_MOST_ALIKE = 2
"""Calls of one input set and one probe."""


@dataclass(frozen=True)
class KeptCall:
    """A call that was right, and the weights it was made with."""

    trial: Trial
    weights: Mapping[str, torch.Tensor]


@dataclass
class KeptCalls:
    """Those of one judging; natural calls come first."""

    _calls: list[KeptCall] = field(default_factory=list)
    _alike: dict[tuple[str, str, bool], int] = field(default_factory=dict)
    _bytes: int = 0

    def add(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        """Keep it, unless there are such calls already or it is too large."""
        kind = trial.input_set, trial.probe, trial.step is not None
        size = bytes_in(trial.arguments)
        if self._alike.get(kind, 0) >= _MOST_ALIKE or self._bytes + size > _MOST_BYTES:
            return
        self._alike[kind] = self._alike.get(kind, 0) + 1
        self._bytes += size
        self._calls.append(KeptCall(trial, weights))

    def __iter__(self) -> Iterator[KeptCall]:
        return iter(sorted(self._calls, key=lambda call: call.trial.probe != "natural"))

    def __len__(self) -> int:
        return len(self._calls)
