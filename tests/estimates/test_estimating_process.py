"""The estimating process may take what the judge may, and goes first when memory ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.tools.estimate_client import estimates_for
from tests.process_limits import LIMIT, problem_in, require_limits

pytestmark = pytest.mark.long


def test_the_estimating_process_has_the_limits_of_the_judge(tmp_path: Path) -> None:
    settings = JudgeSettings(problem=problem_in(tmp_path), device="virtual", memory_limit=LIMIT)
    found = estimates_for(settings)
    assert found is not None
    assert found.estimates
    require_limits(tmp_path)
