"""The commit that a result is of."""

from __future__ import annotations

import subprocess
from pathlib import Path

_WRITTEN = (":!benchmarks/results", ":!tests/cassettes/real_writer")
"""What benchmarks write."""


def head_of(checkout: Path) -> str:
    """The commit that is run, as a reader names it; empty where there is none.

    Results and recordings that changed do not make it another: the first command writes some.
    """
    commit = _git(checkout, "rev-parse", "--short", "HEAD")
    changed = _git(checkout, "status", "--porcelain", "--", ".", *_WRITTEN)
    return f"{commit}-dirty" if commit and changed else commit


def _git(checkout: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""
