"""All 86 threats in the study's numbering, and which of their fixtures a sample is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kernelagent.tools.corpus.entries import borrowed, clocks, memory, tampering, values
from kernelagent.tools.corpus.fixture import Fixture, Threat
from kernelagent.tools.corpus.honest.honest import HONEST
from kernelagent.tools.corpus.hostile import ATTACKS, LIKENESSES

Kind = Literal["cheat", "twin", "honest"]
Extent = Literal["full", "threats", "quick"]
"""Everything; one cheat and one twin of each threat, and some honest kernels; a fifth."""
COUNT = 86
_EVERY_NTH = 5
"""A quick look takes every fifth fixture of a kind."""


@dataclass(frozen=True)
class Entry:
    """A fixture with its place in the corpora."""

    kind: Kind
    fixture: Fixture
    threat: int | None = None
    """Number of the threat; None in the honest corpus."""

    @property
    def name(self) -> str:
        return self.fixture.name if self.threat is None else f"{self.threat} {self.fixture.name}"


def threats() -> tuple[Threat, ...]:
    """Every threat, in order; raises ValueError unless there are exactly the 86 of the study."""
    parts = (memory, values, borrowed, tampering, clocks)
    result = sorted((t for part in parts for t in part.THREATS), key=lambda t: t.number)
    if [threat.number for threat in result] != list(range(1, COUNT + 1)):
        raise ValueError("the threats are not numbered from 1 to 86, each once")
    return tuple(
        replace(
            threat,
            cheats=(*threat.cheats, *ATTACKS.get(threat.number, ())),
            twins=(*threat.twins, *LIKENESSES.get(threat.number, ())),
        )
        for threat in result
    )


def entries(device: str, extent: Extent = "full") -> tuple[Entry, ...]:
    """What can be judged on a device kind (`virtual` or `cuda`), or a fixed part of it."""
    elsewhere = set(not_here(device))
    able = [e for e in _all() if e not in elsewhere]
    match extent:
        case "full":
            return tuple(able)
        case "threats":
            return _of_each_threat(able)
        case "quick":
            kinds: tuple[Kind, ...] = ("cheat", "twin", "honest")
            parts = [[e for e in able if e.kind == kind][::_EVERY_NTH] for kind in kinds]
            return tuple(entry for part in parts for entry in part)


def _of_each_threat(able: Sequence[Entry]) -> tuple[Entry, ...]:
    """The first of each kind: what was written first is the plainest of its threat."""
    first: dict[tuple[int, Kind], Entry] = {}
    for entry in able:
        if entry.threat is not None:
            first.setdefault((entry.threat, entry.kind), entry)
    honest = [entry for entry in able if entry.kind == "honest"][::_EVERY_NTH]
    return (*first.values(), *honest)


def not_here(device: str) -> tuple[Entry, ...]:
    """Entries that need a GPU, where there is none; on `cuda` those that only `virtual` is sure to see."""
    on_cuda = device == "cuda"
    return tuple(e for e in _all() if (e.fixture.needs_virtual if on_cuda else e.fixture.needs_gpu))


def _all() -> Iterator[Entry]:
    for threat in threats():
        for fixture in threat.cheats:
            yield Entry("cheat", fixture, threat.number)
        for fixture in threat.twins:
            yield Entry("twin", fixture, threat.number)
    for fixture in HONEST:
        yield Entry("honest", fixture)
