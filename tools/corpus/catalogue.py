"""All 86 threats in the study's numbering, and which of their fixtures a sample is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from kernelagent.tools.corpus import borrowed, clocks, memory, tampering, values
from kernelagent.tools.corpus.fixture import Fixture, Threat
from kernelagent.tools.corpus.honest import HONEST
from kernelagent.tools.corpus.hostile import ATTACKS, LIKENESSES

Kind = Literal["cheat", "twin", "honest"]
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


def entries(device: str, *, quick: bool = False) -> tuple[Entry, ...]:
    """What can be judged on a device kind (`virtual` or `cuda`); `quick`: a fixed sample of it."""
    elsewhere = set(not_here(device))
    able = [e for e in _all() if e not in elsewhere]
    if not quick:
        return tuple(able)
    kinds: tuple[Kind, ...] = ("cheat", "twin", "honest")
    return tuple(
        entry for kind in kinds for entry in [e for e in able if e.kind == kind][::_EVERY_NTH]
    )


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
