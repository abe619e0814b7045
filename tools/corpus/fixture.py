"""The records of the corpora: a candidate with the verdict it must get, and a threat with its candidates.

The threats are numbered as in the study of 86 ways to game a kernel benchmark (`docs/threats.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernelagent.domain.problem import Mode

_BASES = Path(__file__).parent / "bases"

Closed = Literal["refused", "disclosed", "problem", "design", "cuda"]
"""How a threat is met: a code; a disclosure; a word about the problem; by construction, so that there
is no candidate to judge; or only where there is a GPU."""


@dataclass(frozen=True)
class Fixture:
    """One candidate for one of the base problems, and what the judge must say about it."""

    name: str
    problem: str
    """Name of a base: `bases/<problem>.py`."""
    source: str
    code: str | None = None
    """The code it must be refused with; None: it must be accepted."""
    discloses: str | None = None
    """Code of a disclosure that its acceptance must carry."""
    withholds: str | None = None
    """Code of a disclosure that its acceptance must not carry."""
    least_us: float | None = None
    """Its estimate, if it gets one, must not be below this."""
    estimated: bool = False
    """It must get an estimate."""
    policy: str = "triton"
    dynamic: tuple[str, ...] = ()
    """Dimensions declared dynamic, as `--dynamic` has them."""
    mode: Mode = "eval"
    needs_gpu: bool = False
    """True when what it does exists on `cuda` only."""
    also: tuple[str, ...] = ()
    """Codes that are as right, where it depends on what is drawn which of two faults is met first."""
    on_cuda: tuple[str, ...] = ()
    """Codes that are as right on `cuda`, where a launch that `virtual` refuses may go through."""

    @property
    def needs_virtual(self) -> bool:
        """Only the interpreter of `virtual` is sure to see a race, or an access out of bounds."""
        return self.code in ("data_race", "out_of_bounds")

    def codes(self, device: str) -> frozenset[str | None]:
        """What it may be refused with on a device kind; None: accepted."""
        return frozenset({self.code, *self.also, *(self.on_cuda if device == "cuda" else ())})


@dataclass(frozen=True)
class Threat:
    """One way to game a judge, how it is met, and the fixtures that prove it."""

    number: int
    title: str
    closed: Closed
    how: str
    """One sentence: what stops it, or why there is nothing to stop."""
    cheats: tuple[Fixture, ...] = ()
    twins: tuple[Fixture, ...] = ()
    """Honest candidates that look like it and must be accepted."""


def problem_path(name: str) -> Path:
    """The file of a base problem."""
    return _BASES / f"{name}.py"


def honest_kernel(name: str) -> str:
    """The honest candidate of a base problem: what cheats and twins are edited from."""
    return (_BASES / f"{name}_kernel.py").read_text(encoding="utf-8")


def edited(source: str, *edits: tuple[str, str]) -> str:
    """`source` with each `(old, new)` applied; raises ValueError unless `old` stands there once."""
    for old, new in edits:
        result = source.count(old)
        if result != 1:
            raise ValueError(f"{old!r} stands {result} times in the source to be edited")
        source = source.replace(old, new)
    return source
