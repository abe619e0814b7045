"""Test-time scaling: who is asked next, with which history. A strategy is a function of the history.

It never touches a device, a clock or a network: the same seed and history give the same requests.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

from kernelagent.domain.configuration.model_options import COMPILER
from kernelagent.domain.errors import UsageError
from kernelagent.domain.history import History, TurnRequest

ENTRY_POINTS = "kernelagent.strategies"
BUILT_IN = {
    "sequential": "kernelagent.strategies.sequential:Sequential",
    "window": "kernelagent.strategies.window:Window",
    "best-of-n": "kernelagent.strategies.best_of_n:BestOfN",
    "chains": "kernelagent.strategies.chains:Chains",
    "tree": "kernelagent.strategies.tree:Tree",
    "bandit": "kernelagent.strategies.bandit:Bandit",
    "auto": "kernelagent.strategies.auto:Auto",
}
_CHOOSES = frozenset({"bandit"})
"""Strategies that learn which model is worth asking: the built-in policy does not take their first turns."""


class Strategy(Protocol):
    """Built as a frozen dataclass whose fields, beyond `models` and `seed`, are its options."""

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        """The requests to send now; they may run concurrently.

        An empty sequence means to wait while turns are pending, and ends the run when none are.
        """
        ...


def load_strategy(
    name: str, models: Sequence[str], seed: int = 0, options: Mapping[str, str] | None = None
) -> Strategy:
    """Import exactly the strategy asked for; raises `UsageError` for an unknown name or option.

    Beside other models the built-in policy only opens (`opening`), unless the strategy chooses among models.
    """
    # Entry points are read only when needed: that opens the metadata of every installed package.
    known = BUILT_IN if name in BUILT_IN else _installed() | BUILT_IN
    if name not in known:
        raise UsageError(f"there is no strategy {name!r}; installed: {', '.join(sorted(known))}")
    module, _, attribute = known[name].partition(":")
    kind = getattr(importlib.import_module(module), attribute)
    others = tuple(model for model in models if model != COMPILER)
    if name in _CHOOSES or not others or len(others) == len(models):
        return build(kind, name, tuple(models), seed, options or {})
    from kernelagent.strategies.opening import Opening

    return Opening(COMPILER, build(kind, name, others, seed, options or {}))


def _installed() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


def build(
    kind: Any, name: str, models: tuple[str, ...], seed: int, options: Mapping[str, str]
) -> Strategy:
    """Set the strategy's options from text, checked against its fields."""
    given = {f.name: f for f in dataclasses.fields(kind) if f.init}
    fields = {name: f for name, f in given.items() if name not in {"models", "seed"}}
    values: dict[str, Any] = {}
    for key, text in options.items():
        if key not in fields:
            known = ", ".join(fields) or "none"
            raise UsageError(f"strategy {name!r} has no option {key!r}; it has: {known}")
        values[key] = _read(text, fields[key].type, f"--set {key}")
    strategy: Strategy = kind(models=models, seed=seed, **values)
    return strategy


def _read(text: str, kind: Any, flag: str) -> Any:
    spelled = kind if isinstance(kind, str) else kind.__name__
    try:
        match spelled.removesuffix(" | None"):
            case "int":
                return int(text)
            case "float":
                return float(text)
            case "bool":
                return {"true": True, "false": False}[text.lower()]
            case _:
                return text
    except (ValueError, KeyError) as error:
        raise UsageError(f"{flag} wants a value of type {spelled}, not {text!r}") from error
