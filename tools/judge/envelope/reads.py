"""Which attributes of a reference its calls read, seen while they run: of each part, and of each settings object.

What the emitted module compares when it is put on a module is kept to these, so that layers of a model which differ in
something no verified call has read, such as their number, can take one another's file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.guard_walk import Told, told

_LOOKS_UP = frozenset({"__getattribute__", "__getattr__", "__setattr__", "__delattr__"})
_ALL = "__dict__"
_IMMUTABLE = 1 << 8
"""Python's `Py_TPFLAGS_IMMUTABLETYPE`."""


@dataclass(frozen=True)
class Reads:
    """What calls have read."""

    places: frozenset[str]
    """Path and name of each attribute and buffer, as `Told.place` has them."""
    in_classes: frozenset[str]
    """Path and name of what was looked up in parts and settings and stands in their classes."""
    missing: frozenset[str]
    """Path and name of what was looked for in parts and settings and is not there."""
    changed: frozenset[str]
    """What calls leave otherwise than they found it, as `Told.what` has it: it is another after each."""


@dataclass
class _Seen:
    """Looks-up of attributes by (id of the object, name), while a forward runs."""

    names: set[tuple[int, str]] = field(default_factory=set)
    unwatched: set[int] = field(default_factory=set)
    """Objects of classes in C, such as a `SimpleNamespace`: of them what code names counts as read."""
    running: bool = False

    def has(self, row: Told) -> bool:
        at = id(row.owner)
        if at in self.unwatched:
            return row.named
        return not self.names.isdisjoint({(at, row.name), (at, _ALL)})


def reads_of(
    module: torch.nn.Module,
    run: Callable[[Arguments], object],
    calls: Iterable[Arguments],
    *,
    both_modes: bool,
) -> Reads | None:
    """What `module` reads in these calls, which `run` makes of it; None where none of them could be made.

    `both_modes`: in the other mode as well, because the emitted module answers in it too.
    """
    before = told(module)
    seen, ran = _Seen(), False
    changed: set[str] = set()
    with _watched(module, before, seen):
        for arguments in calls:
            for training in _modes(module, both=both_modes):
                with _in_mode(module, training=training):
                    try:
                        run(arguments)
                    except ProblemError:
                        continue
                ran = True
                after = {row.what: row.text for row in told(module)}
                changed |= {row.what for row in before if after.get(row.what) != row.text}
    if not ran:
        return None
    places = frozenset(row.place for row in before if row.place and seen.has(row))
    others = frozenset(_not_their_own(module, before, seen))
    in_classes = frozenset(place for place, found in others if found)
    missing = frozenset(place for place, found in others if not found)
    return Reads(places, in_classes, missing, frozenset(changed))


def _not_their_own(
    module: torch.nn.Module, rows: Iterable[Told], seen: _Seen
) -> Iterator[tuple[str, bool]]:
    """Path and name of what was looked for in objects that do not hold it themselves; whether their class does."""
    owners = {id(r.owner): (r.place.removesuffix(r.name), r.owner) for r in rows if r.place}
    owners |= {id(part): (f"{path}.", part) for path, part in module.named_modules()}
    for at, name in seen.names:
        path, owner = owners.get(at, ("", None))
        if not path or name.startswith("__"):
            continue
        if not hasattr(owner, name):
            yield path + name, False
        elif any(name in vars(kind) for kind in type(owner).__mro__) and name not in _own(owner):
            yield path + name, True


def _own(owner: Any) -> Mapping[str, Any]:
    held: Mapping[str, Any] = getattr(owner, _ALL, {})
    return held


def _modes(module: torch.nn.Module, *, both: bool) -> tuple[bool, ...]:
    return (module.training, not module.training) if both else (module.training,)


@contextmanager
def _in_mode(module: torch.nn.Module, *, training: bool) -> Iterator[None]:
    flags = [(part, part.training) for part in module.modules()]
    if training != module.training:
        module.train(training)
    try:
        yield
    finally:
        for part, flag in flags:
            part.training = flag


@contextmanager
def _watched(module: torch.nn.Module, rows: tuple[Told, ...], seen: _Seen) -> Iterator[None]:
    """Within it, what a forward looks up in parts and settings is kept in `seen`."""
    owners = {id(row.owner): row.owner for row in rows if row.place}
    owners |= {id(part): part for part in module.modules()}

    def begins(*_: Any) -> None:
        seen.running = True

    def ends(*_: Any) -> None:
        seen.running = False

    with ExitStack() as stack:
        for kind in dict.fromkeys(type(owner) for owner in owners.values()):
            if not _can_be_watched(kind):
                seen.unwatched |= {at for at, owner in owners.items() if type(owner) is kind}
                continue
            stack.enter_context(_looking_into(kind, seen))
        # What the judge does around the forward, such as putting attributes back, is no reading of the module's.
        stack.callback(module.register_forward_pre_hook(begins).remove)
        stack.callback(module.register_forward_hook(ends, always_call=True).remove)
        yield


def _can_be_watched(kind: type) -> bool:
    """Not classes in C, nor a scripted module, whose attributes are not Python's."""
    immutable = bool(kind.__flags__ & _IMMUTABLE)
    return not (immutable or issubclass(kind, torch.jit.ScriptModule))


@contextmanager
def _looking_into(kind: Any, seen: _Seen) -> Iterator[None]:
    usual, own = kind.__getattribute__, "__getattribute__" in vars(kind)

    def look_up(self: Any, name: str) -> Any:
        if seen.running and not (name == _ALL and _is_part_of_a_look_up(sys._getframe(1))):
            seen.names.add((id(self), name))
        return usual(self, name)

    kind.__getattribute__ = look_up
    try:
        yield
    finally:
        if own:
            kind.__getattribute__ = usual
        else:
            del kind.__getattribute__


def _is_part_of_a_look_up(frame: Any) -> bool:
    """torch's modules, and configs of libraries, find each attribute through the dict of all."""
    here = frame.f_globals.get("__name__") in (torch.nn.Module.__module__, __name__)
    return here or frame.f_code.co_name in _LOOKS_UP
