"""The tiers of a profile, the graph's time and the ceilings, on this GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.turn_latency import rms_norm_candidate
from kernelagent.cli.doctor import examine
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.cuda.counters import find_ncu
from kernelagent.tools.judge_client import JudgeProcess

PROBLEM = Path(__file__).resolve().parents[2] / "examples" / "rms_norm_residual.py"


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeProcess]:
    with JudgeProcess(JudgeSettings(ProblemSpec(path=str(PROBLEM)), device="cuda")) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(judge: JudgeProcess) -> Evaluation:
    evaluation = judge.evaluate(Candidate(rms_norm_candidate()), lambda _: None)
    assert evaluation.accepted, evaluation.reason
    return evaluation


def codes(evaluation: Evaluation) -> set[str]:
    return {disclosure.code for disclosure in evaluation.disclosures}


def test_the_compiler_and_the_trace_tell_of_the_candidates_own_kernels(found: Evaluation) -> None:
    assert "not_traced" not in codes(found), found.disclosures
    assert "launches_not_traced" not in codes(found), found.disclosures
    for kernel in found.kernels:
        assert kernel.tier == "compiler+cupti"
        assert kernel.registers
        assert kernel.device_us is not None
        assert kernel.device_us > 0
    shares = [kernel.share_of_device_time or 0.0 for kernel in found.kernels]
    assert 0.5 < sum(shares) <= 1.001


def test_a_replayed_graph_takes_no_longer_than_the_calls(found: Evaluation) -> None:
    timing = found.timing
    assert timing is not None
    assert "no_graph_time" not in codes(found), found.disclosures
    assert timing.device_us is not None
    assert timing.device_us < 1.1 * timing.candidate_us


def test_headroom_stands_on_measured_ceilings(found: Evaluation) -> None:
    assert found.headroom is not None
    assert found.headroom.ceilings == "measured"
    assert 0 < found.headroom.attained < 1.2


def test_a_share_that_is_asked_for_is_held_against_the_trace() -> None:
    settings = JudgeSettings(ProblemSpec(path=str(PROBLEM)), device="cuda", policy="coverage:0.5")
    with JudgeProcess(settings) as judge:
        evaluation = judge.evaluate(Candidate(rms_norm_candidate()), lambda _: None)
    assert evaluation.accepted, evaluation.reason


def test_counters_are_read_or_there_is_one_line_why(
    judge: JudgeProcess, found: Evaluation, written: Callable[[str, str], None]
) -> None:
    counted = judge.count(Candidate(rms_norm_candidate()), found)
    kernels = [kernel for kernel in counted.kernels if kernel.counters]
    why_not = [d.message for d in counted.disclosures if d.code == "no_counters"]
    rows = [f"- {k.name}: {k.counters}, waits for {k.stall}" for k in kernels]
    written("counters.md", "\n".join(["# Counters", "", f"ncu: {find_ncu()}", *rows, *why_not]))
    assert bool(kernels) != bool(why_not)


def test_the_doctor_shows_the_ceilings() -> None:
    shown = [finding.found for finding in examine().findings if finding.code == "ceilings"]
    assert len(shown) >= 1
    assert "TB/s" in shown[0]


def test_the_reference_is_traced(judge: JudgeProcess) -> None:
    (row, *_) = judge.profile_reference()
    assert row.tier == "traced"
    assert row.us > 0
