"""The C helper that triton compiles at its first use of a GPU, compiled once for all candidates.

A candidate's triton cache is its own and empty, so every evaluation would wait for the C compiler.
Never run on a GPU so far.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.spawn import ForkServer

_ENTRY = "kernelagent.tools.cuda.helper:serve"
_COMPILED_S = 180.0
_NAMES = ("cuda_utils*",)


def serve(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main: whatever triton needs before its first launch is then in its cache."""
    from triton.runtime import driver

    driver.active.utils  # noqa: B018 - looking at it compiles it


def compiled_helper(warm: ForkServer, scratch: Path) -> Path | None:
    """A cache folder that holds the helper and nothing else; None where it could not be compiled.

    Without it every candidate compiles its own, and says what is wrong if that fails.
    """
    compiling = scratch / "compiling"
    compiling.mkdir()
    child = warm.fork(_ENTRY, {}, [], Confinement.trusted(compiling))
    try:
        ended = child.wait(_COMPILED_S)
    finally:
        child.kill()
    if ended is None or ended.code != 0:
        return None
    kept = scratch / "helper"
    return kept if keep_only(compiling / "triton", kept, _NAMES) else None


def keep_only(cache: Path, kept: Path, names: tuple[str, ...]) -> int:
    """Copy the entries of a triton cache that hold a file of these names; returns how many."""
    entries = {result.parent for name in names for result in cache.glob(f"*/{name}")}
    for entry in entries:
        shutil.copytree(entry, kept / entry.name, dirs_exist_ok=True)
    return len(entries)
