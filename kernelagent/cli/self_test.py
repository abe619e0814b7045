"""`doctor --judge`: the shipped cheats and honest kernels against the judge on this very machine."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelagent.domain.configuration.judge_settings import SandboxChoice
from kernelagent.tools.corpus.catalogue import COUNT, Entry, Extent, entries, not_here
from kernelagent.tools.corpus.check import Checked, check
from kernelagent.tools.corpus.fixture import Fixture
from kernelagent.tools.corpus.sample import sample

if TYPE_CHECKING:
    from rich.console import RenderableType

SCHEMA = "kernelagent.proof/1"
QUICK_S = 300.0
"""After so long a sample ends: no fixture is begun any more."""
_JOBS = 2


@dataclass(frozen=True)
class Row:
    """One fixture and what became of it."""

    kind: str
    """`cheat`, `twin` (the honest candidate that looks like a cheat) or `honest`."""
    threat: int | None
    name: str
    expected: str
    """A rejection code, or `accepted`."""
    got: str
    as_expected: bool
    message: str
    seconds: float


@dataclass(frozen=True)
class Proof:
    """Everything that was judged, and what could not be here."""

    device: str
    quick: bool
    rows: tuple[Row, ...]
    not_here: tuple[str, ...]
    """Fixtures that need a GPU; on `cuda` those that only `virtual` is sure to see."""
    seconds: float
    not_begun: tuple[str, ...] = ()
    """Fixtures of the sample that its time did not reach."""
    schema: str = SCHEMA
    full: bool = False
    """Whether all of the corpora were wanted: else one cheat and one twin of each threat, or a sample (`quick`)."""

    @property
    def holds(self) -> bool:
        return bool(self.rows) and all(row.as_expected for row in self.rows)

    def count(self, kind: str) -> tuple[int, int]:
        """How many of a kind went as they must, and how many there are."""
        own = [row for row in self.rows if row.kind == kind]
        return sum(row.as_expected for row in own), len(own)


def run_self_test(
    device: str,
    *,
    extent: Extent,
    sandbox: SandboxChoice = "auto",
    enough_s: float = math.inf,
    on_row: Callable[[Row], None] = lambda _: None,
) -> Proof:
    """Judge the corpora, or a part of them; `device`: `virtual` or `cuda`. Raises `EnvironmentFault` where nothing can judge.

    `enough_s`: after so many seconds no fixture is begun any more.
    """
    began = time.monotonic()
    kind = device.partition(":")[0]
    wanted = _wanted(kind, extent)
    places: dict[Fixture, list[Entry]] = {}
    for entry in wanted:
        places.setdefault(entry.fixture, []).append(entry)
    jobs = 1 if kind == "cuda" else min(_JOBS, os.cpu_count() or 1)
    rows: list[Row] = []
    judged: set[Fixture] = set()
    for checked in check(places, device=device, sandbox=sandbox, jobs=jobs, enough_s=enough_s):
        judged.add(checked.fixture)
        for entry in places[checked.fixture]:
            rows.append(_row(entry, checked))
            on_row(rows[-1])
    return Proof(
        device=kind,
        quick=extent == "quick",
        full=extent == "full",
        rows=tuple(sorted(rows, key=lambda row: (row.kind, row.threat or 0, row.name))),
        not_here=tuple(entry.name for entry in not_here(kind)),
        seconds=time.monotonic() - began,
        not_begun=tuple(entry.name for entry in wanted if entry.fixture not in judged),
    )


def _wanted(kind: str, extent: Extent) -> tuple[Entry, ...]:
    if extent != "quick" or kind != "cuda":
        return entries(kind, extent)
    # Each judge on a GPU compiles its baseline, and what is accepted is timed: few problems, few of those.
    chosen = {fixture: number for number, fixture in enumerate(sample())}
    ours = [entry for entry in entries(kind) if entry.fixture in chosen]
    return tuple(sorted(ours, key=lambda entry: chosen[entry.fixture]))


def _row(entry: Entry, checked: Checked) -> Row:
    return Row(
        kind=entry.kind,
        threat=entry.threat,
        name=entry.fixture.name,
        expected=entry.fixture.code or "accepted",
        got=checked.code or "accepted",
        as_expected=checked.as_expected,
        message=checked.message,
        seconds=checked.seconds,
    )


def shown(proof: Proof) -> Sequence[RenderableType]:
    """For a terminal: the counts, then whatever went otherwise."""
    from rich.table import Table

    sample = "a sample" if proof.quick else "all" if proof.full else "some of each threat"
    table = Table(title=f"the judge on this machine, device {proof.device}, {sample}")
    for heading in ("corpus", "as it must be", "seconds"):
        table.add_column(heading, justify="left" if heading == "corpus" else "right")
    for kind, words in _WORDS.items():
        right, of = proof.count(kind)
        spent = sum(row.seconds for row in proof.rows if row.kind == kind)
        table.add_row(words, f"{right} of {of}", f"{spent:.0f}")
    lines: list[RenderableType] = [table]
    lines += [
        f"WRONG {row.kind} {row.threat or ''} {row.name}: expected {row.expected}, got {row.got}: "
        f"{row.message}"
        for row in proof.rows
        if not row.as_expected
    ]
    threats = {row.threat for row in proof.rows if row.kind == "cheat"}
    lines.append(
        f"{len(threats)} of the {COUNT} known threats have a cheat that was judged here; "
        f"docs/threats.md says how each of the others is met. {proof.seconds:.0f} s in all."
    )
    if proof.not_begun:
        lines.append(
            f"a sample ends after {QUICK_S / 60:g} minutes: {len(proof.not_begun)} of its fixtures were not "
            f"begun; `kernelagent doctor --judge` judges some of each threat, however long it takes"
        )
    if not proof.quick and not proof.full:
        lines.append("`kernelagent doctor --judge --full` judges all of the corpora")
    if proof.not_here:
        why = "only `virtual` is sure to see it" if proof.device == "cuda" else "needs a GPU"
        lines.append(f"not judged, {why}: {', '.join(proof.not_here)}")
    return lines


_WORDS = {
    "cheat": "cheats refused, each for its own reason (or disclosed)",
    "twin": "honest candidates that look like a cheat, accepted",
    "honest": "honest kernels, accepted",
}
