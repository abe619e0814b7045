"""Checks of a strategy's options, worded for the user of `--set`."""

from __future__ import annotations

from collections.abc import Collection

from kernelagent.domain.errors import UsageError


def at_least(least: float, **options: float | None) -> None:
    """Raises `UsageError` for the first option below `least`; None is an option left out."""
    for name, value in options.items():
        if value is not None and not value >= least:
            raise UsageError(f"--set {name} wants at least {least:g}, not {value:g}")


def a_share(**options: float) -> None:
    """Raises `UsageError` for the first option outside 0 to 1."""
    for name, value in options.items():
        if not 0 <= value <= 1:
            raise UsageError(f"--set {name} wants a share from 0 to 1, not {value:g}")


def one_of(allowed: Collection[str], **options: str) -> None:
    """Raises `UsageError` for the first option that is none of the words allowed."""
    for name, value in options.items():
        if value not in allowed:
            raise UsageError(f"--set {name} wants one of {', '.join(allowed)}, not {value!r}")
