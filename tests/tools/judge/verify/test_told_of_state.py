"""Calls beyond the verdict's own begin with the module's own state, whatever the call before has left."""

from __future__ import annotations

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.corpus.fixture import honest_kernel, problem_path
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.judges import open_judge

pytestmark = pytest.mark.long


def test_of_a_right_module_with_state_no_difference_is_told(fork_server: ForkServer) -> None:
    problem = ProblemSpec(path=str(problem_path("k_lost_state")))
    with open_judge(JudgeSettings(problem, device="virtual"), fork_server) as judge:
        verdict = judge.evaluate(honest_kernel("k_lost_state"), "verdict", lambda _: None)
    assert verdict.accepted
    codes = {disclosure.code for disclosure in verdict.disclosures}
    assert not {code for code in codes if code.startswith("differs_on")}
    assert "rounding_alone" not in codes
