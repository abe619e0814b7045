"""Everything here needs a GPU and is skipped, loudly, without one.

One command runs them all: `make gpu`; `make gpu WRITE_RESULTS=1` writes the tables of
benchmarks/results too, and `make gpu TRIES=50` tries as often as the promises say.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = pytest.mark.skip(reason="needs a CUDA device: none here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(WITHOUT)


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
    return int(os.environ.get("TRIES", "10"))
