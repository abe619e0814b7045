"""Which versions of Python, torch and Triton are supported; others are refused before anything starts.

The ranges are those that benchmarks/results/versions.md was made with.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib import metadata

from kernelagent.domain.errors import EnvironmentFault

Release = tuple[int, int]
RANGES: dict[str, tuple[Release, Release]] = {
    "Python": ((3, 11), (3, 13)),
    "torch": ((2, 11), (2, 13)),
    "triton": ((3, 6), (3, 9)),
}
"""First and last supported minor version."""


def require_supported(installed: Callable[[str], str] = metadata.version) -> None:
    """Raises `EnvironmentFault` with one sentence for a version out of range.

    What says nothing of its version is let through: importing it will tell what is wrong.
    """
    for name in RANGES:
        try:
            version = platform.python_version() if name == "Python" else installed(name)
        except metadata.PackageNotFoundError:
            continue
        sentence = why_not(name, version)
        if sentence is not None:
            raise EnvironmentFault(sentence)


def why_not(name: str, version: str) -> str | None:
    """One sentence for a version that is not supported; None for one that is."""
    (low, high), release = RANGES[name], _release(version)
    if release is None or low <= release <= high:
        return None
    first, last = (".".join(map(str, end)) for end in (low, high))
    return f"{name} {first} to {last} is needed, and {version} is installed"


def _release(version: str) -> Release | None:
    parts = version.split(".")[:2]
    return (
        (int(parts[0]), int(parts[1])) if len(parts) == 2 and all(map(str.isdigit, parts)) else None
    )
