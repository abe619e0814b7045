"""What a forward writes into its caller's containers stays out of the inputs that are described and emitted."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernelagent.tools.corpus
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.bounds.reference_profile import profile_reference
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.sandbox.spawn import ForkServer

pytestmark = pytest.mark.long

BASES = Path(kernelagent.tools.corpus.__file__).parent / "bases"


def test_estimating_and_profiling_leave_the_containers_of_the_inputs_as_they_were(
    fork_server: ForkServer,
) -> None:
    problem = ProblemSpec(path=str(BASES / "routed_rows.py"))
    context = JudgeContext.open(JudgeSettings(problem, device="virtual"), fork_server)
    try:
        profile_reference(context)
        (_, notes), _ = context.sources[0].full
        assert [*notes] == ["step"]
    finally:
        context.close()
