"""A process under a memory limit gives back what it has freed, whatever small things were made in between."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

FREES_AND_KEEPS = """
import sys
from pathlib import Path

from kernelagent.tools.judge.problem.memory_limit import first_to_go, hold_to


def megabytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmData:"))


{start}
before, kept = megabytes(), []
bytearray(30 << 20)
for turn in range(4):
    blocks = []
    for size in range(24):
        blocks.append(bytearray((20 << 20) + (size << 12)))
        kept.append(bytearray(1 << 16))
    del blocks
print(megabytes() - before)
"""


def grown(start: str) -> int:
    code = FREES_AND_KEEPS.format(start=start)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_what_was_freed_counts_against_no_limit() -> None:
    assert grown("hold_to(4 << 30)") < 60 < grown("first_to_go()"), (
        "six are kept, and glibc keeps holes"
    )
