"""Autotuning where nothing can be timed: the judge says which of the fitting configurations runs.

Any of them may win on the user's GPU, so the judged calls go through them in turn.
"""

from __future__ import annotations

import weakref
from typing import Any

from triton.compiler.errors import CompilationError
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError


class Turn:
    """Which configuration the next call takes."""

    def __init__(self) -> None:
        self._number = 0
        self._tuners: weakref.WeakSet[Autotuner] = weakref.WeakSet()

    @property
    def number(self) -> int:
        return self._number

    def seen(self, tuner: Autotuner) -> None:
        self._tuners.add(tuner)

    def take(self, number: int) -> None:
        """Use the `number`-th fitting configuration (modulo their number) from now on."""
        if number != self._number:
            self._number = number
            for tuner in self._tuners:
                tuner.cache.clear()


TURN = Turn()
"""Of this process, which runs one candidate."""


def select_configurations(autotuned: dict[str, int]) -> None:
    """Make every autotuner of this process choose without running; counts into `autotuned`.

    The candidate's own pruning is kept, and so is Triton's habit of skipping a configuration that
    needs more than the device has.
    """
    prune = Autotuner.prune_configs

    def first(self: Autotuner, kwargs: dict[str, Any]) -> list[Any]:
        pruned = prune(self, kwargs)
        autotuned[self.base_fn.__name__] = len(pruned)
        if len(pruned) < 2:
            return list(pruned)
        TURN.seen(self)
        start = TURN.number % len(pruned)
        turned = [*pruned[start:], *pruned[:start]]
        chosen = next((item for item in turned if _fits(self, item, kwargs)), pruned[0])
        # Tuning ends with a reset of what it wrote to; a first call may count on that.
        self.pre_hook({**self.nargs, **kwargs, **chosen.all_kwargs()}, reset_only=True)
        return [chosen]

    Autotuner.prune_configs = first


def _fits(tuner: Autotuner, config: Any, kwargs: dict[str, Any]) -> bool:
    given = {name: value for name, value in kwargs.items() if name != "warmup"}
    try:
        tuner.fn.run(*tuner.nargs.values(), warmup=True, **given, **config.all_kwargs())
    except (OutOfResources, PTXASError, CompilationError):
        return False
    return True
