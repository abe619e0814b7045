"""Verdicts with `--train`: honest gradients are accepted, each way of faking them is refused by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelagent.errors import ProblemError
from kernelagent.evaluation import Evaluation
from kernelagent.problem import ProblemSpec
from kernelagent.tools.corpus.fixture import edited, honest_kernel, problem_path
from kernelagent.tools.judge.judge import Judge
from kernelagent.tools.settings import JudgeSettings

BASE = "relu_affine_trained"
HONEST = honest_kernel(BASE)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    problem = ProblemSpec(path=str(problem_path(BASE)))
    made = Judge(JudgeSettings(problem, device="virtual", mode="train"))
    yield made
    made.close()


def verdict(judge: Judge, source: str) -> Evaluation:
    return judge.evaluate(source, "turn", lambda stage: None)


def test_kernels_for_forward_and_backward_are_accepted_with_their_gradients(judge: Judge) -> None:
    found = verdict(judge, HONEST)
    assert found.accepted, found.reason
    assert found.mode == "train"
    assert found.correctness is not None
    assert found.correctness.gradients == ("weight", "bias", "input 0")
    assert found.envelope["modes"] == ["eval", "train"]
    assert {"first_order_only", "forward_and_backward"} <= {d.code for d in found.disclosures}
    assert {k.name for k in found.kernels} == {"relu_affine", "relu_affine_backward"}
