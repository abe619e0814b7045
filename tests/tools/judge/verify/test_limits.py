"""What the device cannot execute in its time is not the candidate's fault, and the limit can be raised."""

from __future__ import annotations

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import UsageError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.candidate_runner.main import REQUESTS
from kernelagent.tools.judge.bounds.cost_estimate import Account, account
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.deaths import DOING, out_of_time
from kernelagent.tools.judge.verify.process.limits import Deadline, Limits, how_busy, limits_for
from kernelagent.tools.judge.verify.rejection import Rejected, beyond_means, of_smaller_sizes
from kernelagent.tools.wire import pair

PROBLEM = ProblemSpec(path="model.py")


def test_an_executor_without_an_answer_in_time_is_no_rejection_and_names_the_option() -> None:
    ours, silent = pair()
    # Only its line to the executor: no candidate is started.
    process = CandidateProcess.__new__(CandidateProcess)
    process._executor, process._unread = ours, 0  # noqa: SLF001 - a process that never started
    process._limits, process._deadline = Limits(), Deadline(0.05)  # noqa: SLF001
    with pytest.raises(Rejected) as late:
        process.command_executor({"kind": "log"})
    silent.close()
    assert beyond_means(late.value)
    assert "longer than the 0.05 s allowed on this device" in late.value.reason.message
    assert "a larger --judging-seconds" in late.value.reason.message
    with pytest.raises(Rejected) as asked_again:
        process.use_weights({})
    assert asked_again.value is late.value, "it was ended by the judge, and did not crash"


def counted_where(refused: Rejected) -> Account:
    """The account where no process of the candidate can be started."""

    def start() -> CandidateProcess:
        raise refused

    return account(JudgeContext.__new__(JudgeContext), start, {}, {}, 0)


def test_what_has_no_time_left_to_be_counted_is_accepted_without_an_estimate() -> None:
    result = counted_where(out_of_time("in the forward", 1.0))
    assert [told.code for told in result.disclosures] == ["no_time_to_estimate"]
    assert "had no time left" in result.disclosures[0].message
    assert result.worst is None


def test_what_dies_by_itself_while_it_is_counted_is_refused() -> None:
    with pytest.raises(Rejected, match="killed"):
        counted_where(Rejected("crash", "killed by SIGSEGV"))


def test_the_time_for_judging_is_what_was_asked_for() -> None:
    usual = limits_for(JudgeSettings(PROBLEM), "virtual")
    assert (usual.judging_s, usual.call_s, usual.launch_s) == (120, 120, 60)
    longer = limits_for(JudgeSettings(PROBLEM, judging_seconds=900), "virtual")
    assert (longer.judging_s, longer.call_s, longer.launch_s) == (900, 900, 450)
    assert longer.cpu_s >= 900
    with pytest.raises(UsageError, match="--judging-seconds"):
        JudgeSettings(PROBLEM, judging_seconds=0)


def test_on_a_busy_machine_the_same_work_may_take_longer_by_the_clock() -> None:
    usual = limits_for(JudgeSettings(PROBLEM), "virtual")
    busy = usual.times(2.5)
    assert (busy.judging_s, busy.call_s, busy.launch_s, busy.load_s) == (300, 300, 150, 150)
    assert (busy.cpu_s, busy.memory_bytes) == (usual.cpu_s, usual.memory_bytes)
    assert 1 <= how_busy() <= 4


def test_a_candidate_that_dies_at_any_request_is_refused_in_words() -> None:
    assert set(REQUESTS) <= set(DOING)


def test_a_candidate_that_takes_only_the_sizes_that_are_too_large_here_is_not_at_fault() -> None:
    too_large = out_of_time("in the forward", 3.0)
    raised = Rejected("runtime_error", "the forward raised ValueError at line 41")
    result = of_smaller_sizes(raised, too_large).reason
    assert result.code == "unverifiable"
    assert result.detail["means"] == "time"
    assert "at smaller sizes it ends with: the forward raised ValueError" in result.message
    wrong = Rejected("wrong_output", "output is wrong")
    assert of_smaller_sizes(wrong, too_large) is wrong
