"""The estimating process may take what the judge may, and goes first when memory ends."""

from __future__ import annotations

from pathlib import Path

from kernelagent.domain.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.estimate_client import estimates_for

SEES_ITS_LIMITS = """
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


def test_the_estimating_process_has_the_limits_of_the_judge(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(SEES_ITS_LIMITS.format(seen=str(tmp_path / "seen")), encoding="utf-8")
    problem = ProblemSpec(path=str(path))
    found = estimates_for(JudgeSettings(problem=problem, device="virtual", memory_limit="5G"))
    assert found is not None
    assert found.estimates
    data, first_to_go = map(int, (tmp_path / "seen").read_text().split())
    assert 5 * 10**9 <= data < 10 * 10**9, "five beyond what the process had already"
    assert first_to_go >= 700
