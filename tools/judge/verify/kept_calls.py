"""Judged calls that are kept to be made again: one or two of each kind, as far as memory goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch

from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.interpreted_work import bytes_in
from kernelagent.tools.judge.problem.trials.rounds import Trial

_MOST_BYTES = 128 << 20
_MOST_ALIKE = 2
"""Calls of one input set and one probe."""


@dataclass(frozen=True)
class KeptCall:
    """What a call that was right was made with."""

    input_set: str
    arguments: Arguments
    step: TrainingStep | None
    weights: Mapping[str, torch.Tensor]
    leaves_state: bool
    natural: bool


@dataclass
class KeptCalls:
    """Those of one judging; natural calls come first."""

    _calls: list[KeptCall] = field(default_factory=list)
    _alike: dict[tuple[str, str, bool], int] = field(default_factory=dict)
    _weights: set[int] = field(default_factory=set)
    """Of those that are kept, by identity: several calls have the same."""
    _bytes: int = 0

    def add(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        """Keep it, unless there are such calls already or it is too large."""
        kind = trial.input_set, trial.probe, trial.step is not None
        upstream = None if trial.step is None else trial.step.upstream
        size = bytes_in((trial.arguments, upstream))
        if id(weights) not in self._weights:
            size += bytes_in(dict(weights))
        if self._alike.get(kind, 0) >= _MOST_ALIKE or self._bytes + size > _MOST_BYTES:
            return
        self._alike[kind] = self._alike.get(kind, 0) + 1
        self._weights.add(id(weights))
        self._bytes += size
        self._calls.append(
            KeptCall(
                trial.input_set,
                trial.arguments,
                trial.step,
                weights,
                leaves_state=bool(trial.expected.state64),
                natural=trial.probe == "natural",
            )
        )

    def __iter__(self) -> Iterator[KeptCall]:
        return iter(sorted(self._calls, key=lambda call: not call.natural))

    def __len__(self) -> int:
        return len(self._calls)
