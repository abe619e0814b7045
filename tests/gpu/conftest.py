"""Everything here needs a GPU and is skipped, loudly, without one.

One command runs them all: `make gpu`, sampled, within ten minutes. Expected, not measured on a GPU:
corpora 5 minutes (`kernelagent.tools.corpus.sample`), one certificate of each kind 1.5, estimates 1,
profiles 1, the rest 1. `make gpu WRITE_RESULTS=1` writes the tables of benchmarks/results too, and
`make gpu TRIES=50` tries as often as the promises say and takes hours: it has no limit.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = pytest.mark.skip(reason="needs a CUDA device: none here")
ALL_S = 600.0
"""What the tests of this folder may take together when sampled."""
BEGAN = time.monotonic()
LAST = ("test_certificates.py", "test_benchmarks.py")
"""Begun after the others: a stage of `python -m benchmarks.gpu_first` has each of them, too."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name in LAST)
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(WITHOUT)


@pytest.fixture(autouse=True)
def _within_the_ten_minutes(request: pytest.FixtureRequest) -> None:
    """A test that does not fit any more is not begun, and fails with that word."""
    if "TRIES" in os.environ:
        return
    left = ALL_S - (time.monotonic() - BEGAN)
    timeout = request.node.get_closest_marker("timeout")
    if timeout is not None and timeout.args[0] > left:
        pytest.fail(
            f"not begun: it may take {timeout.args[0]} s and {left:.0f} s are left of ten minutes"
        )


@pytest.fixture
def written() -> Callable[[str, str], None]:
    """Keeps a page under benchmarks/results where that was asked for."""

    def keep(name: str, page: str) -> None:
        sys.stdout.write(page + "\n")
        if os.environ.get("WRITE_RESULTS"):
            (ROOT / "benchmarks" / "results" / name).write_text(page + "\n", encoding="utf-8")

    return keep


@pytest.fixture
def tries() -> int:
    """How often what is promised of many certificates is tried; sampled: once."""
    return int(os.environ.get("TRIES", "1"))
