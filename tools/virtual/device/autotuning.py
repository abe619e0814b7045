"""Autotuning where nothing can be timed: the judge says which of the fitting configurations runs.

Any of them may win on the user's GPU, so the judged calls go through them in turn, for each kernel in an order of its
own. In one call for each key another configuration runs before, on the same tensors, as all of them do many times on
a GPU where Triton tunes: what such a run leaves in a tensor that is added to stays there.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

_MADE_ANEW = 3
"""With so many tuners of one kernel, in calls of their own, somebody makes them in each; copies of a module have theirs."""


class ConfigurationChoice:
    """Which configuration the next call takes."""

    def __init__(self) -> None:
        self._number = 0
        self._secret = secrets.token_hex()
        self._tuners: weakref.WeakSet[Autotuner] = weakref.WeakSet()
        self._serials: weakref.WeakKeyDictionary[Autotuner, int] = weakref.WeakKeyDictionary()
        self._tuned: weakref.WeakKeyDictionary[Autotuner, set[str]] = weakref.WeakKeyDictionary()
        self._may_tune = False
        self._names: set[str] = set()
        self._keys: dict[str, set[str]] = {}
        self._told: dict[str, tuple[bool, float]] = {}
        self._known: weakref.WeakSet[Autotuner] = weakref.WeakSet()
        self._calls = 0
        self._asked_in: dict[str, set[int]] = {}
        self._begun_in: dict[str, set[int]] = {}

    def place(self, tuner: Autotuner, count: int) -> int:
        """Which of its `count` fitting configurations comes first now.

        Each kernel goes through all of its own in an order of its own, as a GPU tunes each by itself. What is counted
        is the first of each.
        """
        serial = self._serials.setdefault(tuner, len(self._serials))
        around, at = divmod(self._number, count)
        order = list(range(count))
        random.Random(f"{self._secret} {serial} {around}").shuffle(order)
        if not around:
            order.remove(0)
            order.insert(0, 0)
        return order[at]

    def seen(self, tuner: Autotuner) -> None:
        self._tuners.add(tuner)

    def take(self, number: int) -> None:
        """Use each kernel's `number`-th fitting configuration (modulo their number) from now on."""
        if number != self._number:
            self._number = number
            for tuner in self._tuners:
                tuner.cache.clear()

    @contextlib.contextmanager
    def tuning(self) -> Iterator[set[str]]:
        """Inside, kernels may be tuned, except with configuration 0; yields the names of those that were."""
        self._may_tune, self._names = self._number > 0, set()
        self._calls += 1
        try:
            yield self._names
        finally:
            self._may_tune = False

    def is_to_tune(self, tuner: Autotuner, key: str) -> bool:
        """Whether this call is the one that tunes for this key; said once."""
        known = self._tuned.setdefault(tuner, set())
        if not self._may_tune or key in known:
            return False
        known.add(key)
        self._names.add(tuner.base_fn.__name__)
        return True

    def asked(self, tuner: Autotuner, kwargs: dict[str, Any]) -> None:
        """Note what Triton would tune anew for, and for how long."""
        given = {**tuner.nargs, **kwargs}
        wanted = [given.get(name) for name in tuner.keys]
        name = str(tuner.base_fn.__name__)
        by_tensor = any(isinstance(item, torch.Tensor) for item in wanted)
        by_tensor |= self._told.get(name, (False, 0.0))[0]
        self._told[name] = (by_tensor, _milliseconds(tuner))
        self._asked_in.setdefault(name, set()).add(self._calls)
        if tuner not in self._known:
            self._known.add(tuner)
            self._begun_in.setdefault(name, set()).add(self._calls)
        if not by_tensor:
            types = [str(getattr(item, "dtype", "")) for item in given.values()]
            self._keys.setdefault(name, set()).add(repr((wanted, types)))

    def tunings(self) -> list[dict[str, Any]]:
        """Of each autotuned kernel so far: kernel, keys, by_tensor, ms and made_anew."""
        return [
            {
                "kernel": name,
                "keys": len(self._keys.get(name, ())),
                "by_tensor": tensor,
                "ms": ms,
                "made_anew": self._is_made_anew(name),
            }
            for name, (tensor, ms) in self._told.items()
        ]

    def _is_made_anew(self, name: str) -> bool:
        """Whether most calls came with a tuner that no call before them had: what was tuned is lost with each."""
        begun = len(self._begun_in.get(name, ()))
        return begun >= _MADE_ANEW and 2 * begun > len(self._asked_in[name])


def _milliseconds(tuner: Autotuner) -> float:
    given = (getattr(tuner, name, None) for name in ("num_warmups", "num_reps"))
    return float(sum(item for item in given if isinstance(item, int | float)))


CHOICE = ConfigurationChoice()
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
        CHOICE.seen(self)
        CHOICE.asked(self, kwargs)
        start = CHOICE.place(self, len(pruned))
        turned = [*pruned[start:], *pruned[:start]]
        chosen = next((item for item in turned if _fits(self, item, kwargs)), pruned[0])
        launches = "grid" in kwargs and not kwargs.get("warmup")
        if launches and CHOICE.is_to_tune(self, _key(self, kwargs)):
            others = (item for item in reversed(turned) if item is not chosen)
            _tried(self, next((o for o in others if _fits(self, o, kwargs)), chosen), kwargs)
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


def _key(tuner: Autotuner, kwargs: dict[str, Any]) -> str:
    """What Triton tunes anew for: the arguments named by `key`, and the types of all."""
    given = {**tuner.nargs, **kwargs}
    wanted = [given.get(name) for name in tuner.keys]
    return repr((wanted, [str(getattr(item, "dtype", "")) for item in given.values()]))


def _tried(tuner: Autotuner, config: Any, kwargs: dict[str, Any]) -> None:
    """One of the runs that Triton times, with the hooks around it."""
    current = {**kwargs, **config.all_kwargs()}
    everything = {**tuner.nargs, **current}
    if config.pre_hook is not None:
        config.pre_hook(everything)
    tuner.pre_hook(everything)
    tuner.fn.run(*tuner.nargs.values(), **current)
    tuner.post_hook(everything, exception=None)
