"""Records the candidate's Triton launches inside a runner on `cuda`, and suppresses them on request.

A launch is the candidate's own when its kernel was written in the candidate's file: what torch.compile
or a library launches is not. It is evidence from the candidate's own process: it explains, and with
the knock-out's wrong result it convinces; on `virtual` the executor's log takes its place.
The launcher itself never ran on a GPU so far; the record is tried with kernels that were compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_ROWS = 512
"""Launches of one call that are kept apart; tuning makes thousands."""
Annotate = Callable[[str], Any]


@dataclass
class Launches:
    """What has been launched since it was last asked; `source`: the candidate's file."""

    source: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    others: int = 0
    """Launches of kernels from elsewhere."""
    suppressed: bool = False
    kernels: dict[str, Any] = field(default_factory=dict)
    """The candidate's compiled kernels by content hash, for what the compiler says of them."""
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The first launch of each of them: a CUDA graph may launch it again, unseen from here."""
    _annotate: Annotate | None = None
    _prefix: str = ""

    def take(self) -> tuple[list[dict[str, Any]], int]:
        """The rows and the number of others since the last time, which are then forgotten."""
        rows, others = self.rows, self.others
        self.rows, self.others = [], 0
        return rows, others

    @contextmanager
    def annotated(self, annotate: Annotate, prefix: str) -> Iterator[None]:
        """In it every own launch stands inside `annotate(prefix + its number)`, so that a trace shows it."""
        self._annotate, self._prefix = annotate, prefix
        try:
            yield
        finally:
            self._annotate = None

    def launch(self, compiled: Any, launcher: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Launch `compiled` through `launcher`, or not, and keep what was asked for."""
        if not self._is_own(compiled):
            self.others += 1
            return launcher(*args)
        number, row = len(self.rows), row_of(compiled, args[:3])
        if row["hash"] not in self.known:
            self.known[row["hash"]], self.kernels[row["hash"]] = row, compiled
        if number < MOST_ROWS:
            self.rows.append(row)
        if self.suppressed:
            return None
        if self._annotate is None:
            return launcher(*args)
        with self._annotate(f"{self._prefix}{number}"):
            return launcher(*args)

    def _is_own(self, compiled: Any) -> bool:
        code = getattr(getattr(function_of(compiled), "fn", None), "__code__", None)
        return code is not None and _resolved(code.co_filename) == _resolved(self.source)


def function_of(compiled: Any) -> Any:
    """The @triton.jit function behind a compiled kernel; None for one compiled from text."""
    return getattr(compiled.src, "fn", None)


def row_of(compiled: Any, grid: tuple[Any, ...]) -> dict[str, Any]:
    """A launch as plain data, with the keys that a row of the executor's log has."""
    function, metadata = function_of(compiled), compiled.metadata
    return {
        "kernel": str(getattr(function, "__name__", compiled.name)),
        "compiled": str(compiled.name),
        "hash": str(compiled.hash),
        "line": int(getattr(function, "starting_line_number", 0)),
        "grid": [int(size) for size in grid],
        "options": {
            "num_warps": int(metadata.num_warps),
            "num_stages": int(getattr(metadata, "num_stages", 0)),
        },
        "metadata": {"shared": int(metadata.shared)},
    }


def watch_launches(launches: Launches) -> None:
    """Let every launch of this process from now on go through `launches`; before a candidate is imported."""
    from triton.compiler import CompiledKernel

    original = CompiledKernel.run.fget

    def run(self: Any) -> Any:
        launcher = original(self)
        return lambda *args: launches.launch(self, launcher, args)

    CompiledKernel.run = property(run)


def _resolved(path: str) -> str:
    return str(Path(path).resolve())
