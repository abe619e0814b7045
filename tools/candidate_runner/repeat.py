"""Many calls in a row on prepared inputs, for a clock that stands outside this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelagent.tools.calls.training_step import Prepared, TrainingStep
from kernelagent.tools.cuda.chain import digest, pair_at, picked

_WARM_UP = 3


class Repeated:
    """Holds several argument sets on the device and calls a module on them, one after the other."""

    def __init__(self, call: Callable[..., Any], device: str) -> None:
        self._call = call
        self._device = device
        self._sets: Sequence[Any] = ()
        self._step: Prepared | None = None

    def prepare(
        self, sets: Sequence[Any], step: TrainingStep | None = None, module: Any = None
    ) -> None:
        """Take `sets` of (args, kwargs) and call on each in turn, a few times at least: this compiles and tunes.

        With a `step` each call is a forward and its backward, for that step's upstream gradients;
        `module` is then what has the parameters.
        """
        self._sets = sets
        self._step = None if step is None else Prepared(module, self._call, step)
        for at in range(max(_WARM_UP, len(sets))):
            args, kwargs = sets[at % len(sets)]
            self.call_once(args, kwargs)
        self._settle()

    def run(self, calls: int) -> None:
        """Enqueue `calls` calls on rotated inputs and wait for the device."""
        for at in range(calls):
            args, kwargs = self._sets[at % len(self._sets)]
            self.call_once(args, kwargs)
        self._settle()

    def chain(self, calls: int, secret: int, *, empty: bool) -> torch.Tensor:
        """`calls` calls, the inputs of each picked by the answer before; returns int64 digests on the CPU.

        The first inputs are picked by `secret`. `empty`: the same picking around an answer that is
        there already, which is what picking alone costs.
        """
        still = self.call_once(*self._sets[0]) if empty else None
        state = torch.tensor(secret, dtype=torch.int64, device=self._device)
        seen = []
        for at in range(calls):
            args, kwargs = picked(*pair_at(self._sets, at), state)
            state = digest(still if empty else self.call_once(args, kwargs))
            seen.append(state)
        return torch.stack(seen).cpu()

    @property
    def peak_bytes(self) -> int | None:
        """Most device memory this process held; None where nothing counts it."""
        if self._device == "cpu":
            return None
        return int(torch.cuda.max_memory_allocated())

    def call_once(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._step is not None:
            return self._step((args, kwargs))
        with torch.no_grad():
            return self._call(*args, **kwargs)

    def _settle(self) -> None:
        if self._device != "cpu":
            torch.cuda.synchronize()
