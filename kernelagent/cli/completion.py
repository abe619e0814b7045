"""What the shell offers after a tab: values that an option takes, runs that are kept; nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

RUNS_KEPT = Path(".kernelagent/runs")
STRATEGIES = ("auto", "sequential", "window", "best-of-n", "chains", "tree", "bandit")
DEVICES = ("auto", "cuda", "cuda:0", "virtual")
TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
POLICIES = ("triton", "pure", "coverage:0.8", "any")
BASELINES = ("eager", "compile", "best")
MODES = ("eval", "train")
SANDBOXES = ("auto", "require", "off")
PROMPTS = ("strong", "small")
RUNTIMES = ("inline", "package")
MODELS = ("compiler", "replay:", "files:", "vllm:", "openai/", "anthropic/", "gemini/")
ACTS = ("pause", "resume", "stop", "hint", "pin", "unpin", "ban", "unban", "budget", "emit")

Complete = Callable[[str], list[str]]


def among(values: tuple[str, ...]) -> Complete:
    """Those of `values` that go on from what is typed."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def runs(incomplete: str) -> list[str]:
    """Runs in the usual folder, the latest first."""
    if not RUNS_KEPT.is_dir():
        return []
    names = sorted((entry.name for entry in os.scandir(RUNS_KEPT) if entry.is_dir()), reverse=True)
    return [name for name in names if name.startswith(incomplete)]


def listed(values: tuple[str, ...]) -> str:
    """`a, b or c`, for a help text."""
    return f"{', '.join(values[:-1])} or {values[-1]}"
