"""A problem that writes down the limits of the process that reads it, and what they must be."""

from __future__ import annotations

from pathlib import Path

from kernelagent.domain.problem import ProblemSpec

LIMIT = "5G"
_SEES_ITS_LIMITS = """
import resource
from pathlib import Path

import torch

data = resource.getrlimit(resource.RLIMIT_DATA)[0]
first = Path("/proc/self/oom_score_adj").read_text()
Path({seen!r}).write_text(f"{{data}} {{first}}")


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def get_inputs():
    return [torch.randn(64, 64)]
"""


def problem_in(folder: Path) -> ProblemSpec:
    """It writes into the same folder."""
    path = folder / "problem.py"
    path.write_text(_SEES_ITS_LIMITS.format(seen=str(folder / "seen")), encoding="utf-8")
    return ProblemSpec(path=str(path))


def require_limits(folder: Path) -> None:
    """That the process had a memory limit of `LIMIT` and goes first when memory ends."""
    data, first_to_go = map(int, (folder / "seen").read_text(encoding="utf-8").split())
    assert 5 * 10**9 <= data < 10 * 10**9, "five beyond what the process had already"
    assert first_to_go >= 700
