"""What a candidate keeps between calls, as it is: everything that is reachable from its text and its module.

Counters and iterators, caches and buffers look like many things in a text; between two calls they differ in
the same way. Nothing of the candidate's own is called: values are read as the interpreter holds them.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch

from kernelagent.tools.calls.state_changes import BEYOND, not_read
from kernelagent.tools.candidate_runner.kept.kept_objects import Objects

_SHOWN = 6


@dataclass(frozen=True)
class State:
    """Everything that outlives a call, by the way to it."""

    values: Mapping[str, str]
    """What stands there."""
    objects: Mapping[str, int]
    """Which object stands there: what is equal may be told apart by `is`."""
    orders: Mapping[str, tuple[str, ...]]
    """Of dictionaries, in which order they have their keys."""
    not_read: tuple[str, ...]
    """Ways to objects whose contents nothing tells."""
    is_complete: bool


def changed(before: State, after: State) -> tuple[str, ...]:
    """What differs, in the text's own names; a few of many."""
    ways = [
        way
        for way in {**before.values, **after.values}
        if before.values.get(way) != after.values.get(way)
    ]
    ways += _exchanged(before.objects, after.objects)
    ways += _reordered(before.orders, after.orders)
    names = dict.fromkeys(map(_named, ways))
    unread = [not_read(n) for n in dict.fromkeys(map(_named, after.not_read)) if n not in names]
    beyond = [] if before.is_complete and after.is_complete else [BEYOND]
    return tuple([*beyond, *names, *unread][:_SHOWN])


def _exchanged(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    """Ways to another object than before, where the new one does not stand in all the places of the old one.

    What a call makes anew, and keeps where an equal one was, is no difference: nothing could tell them apart.
    """
    moved = [way for way, known in before.items() if after.get(way, known) != known]
    if moved:
        places, then = _places(before, moved), _places(after, moved)
        yield from (way for way in moved if places[before[way]] != then[after[way]])


def _places(objects: Mapping[str, int], ways: Iterable[str]) -> dict[int, list[str]]:
    result: dict[int, list[str]] = {objects[way]: [] for way in ways}
    for way, known in objects.items():
        if known in result:
            result[known].append(way)
    return {known: sorted(each) for known, each in result.items()}


def _reordered(
    before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    for way, keys in before.items():
        then = after.get(way, keys)
        if keys != then:
            both = {*keys} & {*then}
            if [k for k in keys if k in both] != [k for k in then if k in both]:
                yield way


def state_of(
    module: types.ModuleType,
    instance: torch.nn.Module | None,
    words: frozenset[str] = frozenset(),
) -> State:
    """Everything that outlives a call; what parameters and saved buffers hold is compared with the reference's instead.

    `words`: of the text, by which it may reach what is not its own.
    """
    return walk(module, instance, words).state


@dataclass(frozen=True)
class Walked:
    """What a candidate keeps at one time."""

    state: State
    bytes: int
    """Of tensors that the judge does not compare with the reference's."""


def walk(
    module: types.ModuleType,
    instance: torch.nn.Module | None,
    words: frozenset[str] = frozenset(),
) -> Walked:
    """`state_of`, and how much memory it is."""
    seen = Objects(module, instance, words)
    state = State(
        seen.values, seen.objects, seen.orders, tuple(seen.not_read), is_complete=seen.is_complete
    )
    return Walked(state, seen.kept_bytes)


def _named(way: str) -> str:
    """The shortest beginning of a way that a reader finds in the text."""
    inner = re.sub(r"\._(buffers|modules|parameters)\.", ".", way)
    return re.sub(r"(\.(closure|defaults|attributes|code)\b)?([\[(].*)?$", "", inner)
