"""Autotuning where nothing can be timed: the first configuration that fits the target wins."""

from __future__ import annotations

from typing import Any

from triton.compiler.errors import CompilationError
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError


def take_first_configuration(autotuned: dict[str, int]) -> None:
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
        chosen = next((one for one in pruned if _fits(self, one, kwargs)), pruned[0])
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
