"""What the shell offers after a tab: values that an option takes, runs that are kept; nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from kernelagent.domain.configuration.config import RUNS

Complete = Callable[[str], list[str]]


def among(values: tuple[str, ...]) -> Complete:
    """Those of `values` that go on from what is typed."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def runs(incomplete: str) -> list[str]:
    """Runs in the usual folder, the latest first."""
    if not Path(RUNS).is_dir():
        return []
    names = sorted((entry.name for entry in os.scandir(RUNS) if entry.is_dir()), reverse=True)
    return [name for name in names if name.startswith(incomplete)]
