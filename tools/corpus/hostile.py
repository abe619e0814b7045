"""All that was written by somebody who had read the judge: cheats and their honest twins, by threat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from kernelagent.tools.corpus import whitebox
from kernelagent.tools.corpus.fixture import Fixture

ByThreat = Mapping[int, tuple[Fixture, ...]]


def _parts() -> Iterator[ModuleType]:
    """Every module of the package, in the order of their names: each has `CHEATS` and `TWINS`."""
    for found in walk_packages(whitebox.__path__, f"{whitebox.__name__}."):
        if not found.ispkg:
            yield import_module(found.name)


def _together(parts: Iterable[ByThreat]) -> dict[int, tuple[Fixture, ...]]:
    result: dict[int, tuple[Fixture, ...]] = {}
    for part in parts:
        for number, fixtures in part.items():
            result[number] = (*result.get(number, ()), *fixtures)
    return result


ATTACKS: ByThreat = _together(part.CHEATS for part in _parts())
LIKENESSES: ByThreat = _together(part.TWINS for part in _parts())
