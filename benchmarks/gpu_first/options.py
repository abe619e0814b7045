"""What the stages can be told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Each a text, as the command line has them."""

    device: str = "cuda"
    """`virtual` runs those parts of a stage that need no GPU: for trying out the plan itself."""
    problems: str = ""
    """A folder of KernelBench problems, for the stage that optimizes them; empty: none."""
    most: str = "8"
    """How many of them, evenly picked."""
    turns: str = "2"
    """Of each run of the built-in policy."""
