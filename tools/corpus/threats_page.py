"""Writes `docs/threats.md` from the catalogue: `python -m kernelagent.tools.corpus.threats_page`."""

from __future__ import annotations

import sys

from kernelagent.tools.corpus.catalogue import threats
from kernelagent.tools.corpus.fixture import Fixture, Threat

_HEAD = """\
# The 86 known ways to game a kernel benchmark, and how each is met

Made from the corpus by `python -m kernelagent.tools.corpus.threats_page > docs/threats.md`; a test keeps it true.
`kernelagent doctor --judge` runs some of the fixtures named here on your own machine for each threat, `--full` all, `--quick` a sample; on a GPU not the races and accesses
out of bounds, which only the interpreter of `virtual` is sure to see.

- **refused**: the judge rejects the cheat with the code given. **disclosed**: legal, so it is accepted, and the evaluation says
  it. **problem**: the problem itself is at fault, and its owner is told. **design**: there is no candidate to judge, because
  what would be attacked is not there. **cuda**: can exist only where there is a GPU; its fixtures are written and have never
  been run on one.
- A *twin* is an honest candidate that looks like the cheat; it must be accepted.

| # | threat | met | codes | what stops it | cheats | twins |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(map(_row, threats()))


def _row(threat: Threat) -> str:
    codes = dict.fromkeys(map(_code, threat.cheats))
    cells = (
        str(threat.number),
        threat.title,
        threat.closed,
        ", ".join(codes),
        threat.how,
        ", ".join(fixture.name for fixture in threat.cheats),
        ", ".join(fixture.name for fixture in threat.twins),
    )
    return f"| {' | '.join(cells)} |\n"


def _code(cheat: Fixture) -> str:
    if cheat.code is not None:
        return f"`{cheat.code}`"
    if cheat.least_us is not None:
        return "estimated as slow as it is"
    return f"discloses `{cheat.discloses}`" if cheat.discloses is not None else "accepted"


if __name__ == "__main__":
    sys.stdout.write(page())
