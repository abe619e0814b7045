"""Triton's own C modules, compiled once for all candidates of a judge.

A candidate's triton cache is its own and begins empty, so that nothing it has written is ever loaded
by another process. Every process would then wait for the C compiler: once for the driver's helper, and
for the launchers of its kernels. Neither holds a line of the candidate's; each process begins with copies
that a process of the judge's own has compiled.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernelagent.tools.cuda.launchers import LAUNCHER, Signature, accepted
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.spawn import ForkServer

MOST_KEPT = 64
"""Launchers that a process begins with at most; beyond that they are collected anew."""
_ENTRY = "kernelagent.tools.cuda.helper:serve"
_LAUNCHERS_ENTRY = "kernelagent.tools.cuda.launchers:compile_launchers"
_COMPILED_S = 180.0
_HELPER = "cuda_utils"


def serve(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main: whatever triton needs before its first launch is then in its cache."""
    from triton.runtime import driver

    driver.active.utils  # noqa: B018 - looking at it compiles it


class CompiledHelpers:
    """The triton cache that a candidate's process begins with: the judge's own, copied for each."""

    def __init__(
        self, fork_server: ForkServer, kept: Path, *, entry: str = _LAUNCHERS_ENTRY
    ) -> None:
        """`kept`: a folder with the driver's helper in it; `entry`: what compiles the launchers."""
        self._warm = fork_server
        self._kept = kept
        self._entry = entry
        self._tried: set[Signature] = set()
        self._told: set[Signature] = set()
        self._launchers: list[Path] = []

    def copy_to(self, cache: Path) -> None:
        """Fill a candidate's cache; what has been told of since the last time is compiled first."""
        if self._told:
            self._compile()
        shutil.copytree(self._kept, cache, dirs_exist_ok=True)

    def learn(self, reported: object) -> None:
        """A candidate's process tells that it has launched kernels with these signatures."""
        self._told.update(set(accepted(reported)) - self._tried)

    def _compile(self) -> None:
        """Where it fails candidates compile their own, and say what is wrong."""
        if len(self._tried) + len(self._told) > MOST_KEPT:
            for entry in self._launchers:
                shutil.rmtree(entry)
            self._launchers, self._tried = [], set()
        with tempfile.TemporaryDirectory(prefix="launchers-", dir=self._kept.parent) as folder:
            scratch, signatures = Path(folder), sorted(self._told)
            if _ended_well(self._warm, self._entry, {"signatures": signatures}, scratch):
                copies = keep_only(scratch / "triton", self._kept, (f"{LAUNCHER}*",))
                self._launchers = list({*self._launchers, *copies})
        self._tried |= self._told
        self._told = set()


def compiled_helpers(fork_server: ForkServer, scratch: Path) -> CompiledHelpers | None:
    """With the driver's helper and nothing else; None where it could not be compiled.

    Without it every candidate compiles its own, and says what is wrong if that fails.
    """
    compiling = scratch / "compiling"
    compiling.mkdir()
    if not _ended_well(fork_server, _ENTRY, {}, compiling):
        return None
    kept = scratch / "helpers"
    has_helper = keep_only(compiling / "triton", kept, (f"{_HELPER}*",))
    return CompiledHelpers(fork_server, kept) if has_helper else None


def _ended_well(
    fork_server: ForkServer, entry: str, settings: dict[str, Any], scratch: Path
) -> bool:
    child = fork_server.fork(entry, settings, [], Confinement.trusted(scratch))
    try:
        ended = child.wait(_COMPILED_S)
    finally:
        child.kill()
    return ended is not None and ended.code == 0


def keep_only(cache: Path, kept: Path, names: Iterable[str]) -> list[Path]:
    """Copy the entries of a triton cache that hold a file of these names; returns the copies."""
    entries = sorted({path.parent for name in names for path in cache.glob(f"*/{name}")})
    copies = [kept / entry.name for entry in entries]
    for entry, copy in zip(entries, copies, strict=True):
        shutil.copytree(entry, copy, dirs_exist_ok=True)
    return copies
