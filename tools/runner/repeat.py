"""Many calls in a row on rotated inputs, for a clock that stands outside this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_WARM_UP = 3


class Repeated:
    """Holds several argument sets on the device and calls a module on them, one after the other."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._sets: Sequence[Any] = ()

    def prepare(self, sets: Sequence[Any]) -> None:
        """Take `sets` of (args, kwargs) and call each a few times: compiling and tuning happen here."""
        self._sets = sets
        for _ in range(_WARM_UP):
            for args, kwargs in sets:
                self._one(args, kwargs)
        torch.cuda.synchronize()

    def run(self, calls: int) -> None:
        """Enqueue `calls` calls and wait for the device."""
        for at in range(calls):
            args, kwargs = self._sets[at % len(self._sets)]
            self._one(args, kwargs)
        torch.cuda.synchronize()

    def _one(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with torch.no_grad():
            self._call(*args, **kwargs)
