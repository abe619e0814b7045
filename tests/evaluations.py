"""Small real parts for tests of the loop: evaluations by hand, an evaluator that looks them up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import (
    DeviceFacts,
    Estimate,
    Evaluation,
    KernelFacts,
    Reason,
    Stage,
)
from kernelagent.domain.history import History, Turn, TurnRequest
from kernelagent.domain.problem import InputSet, ProblemFacts, TensorFacts
from kernelagent.models import Exhausted, ModelQuery, Reply
from kernelagent.prompts.feedback import feedback_for

DEVICE = DeviceFacts("virtual", "H200, not present", "sm_90", "2.13.0", "3.9.0")
FACTS = ProblemFacts(
    name="toy",
    source="class Model: ...\n",
    entry_point="Model",
    constructor="init",
    init_arguments="(4096, eps=1e-06)",
    input_sets=(InputSet("default", (TensorFacts("x", (4, 8), "float32"),), "(x: float32[4, 8])"),),
    outputs=(TensorFacts("output", (4, 8), "float32", kind="output"),),
    state=(TensorFacts("weight", (8,), "float32", kind="parameter"),),
    mode="eval",
    sha256="0" * 64,
    precision="tf32 off",
)


def accepted(ratio: float) -> Evaluation:
    estimate = Estimate(10.0 / ratio, 10.0, "dram", ratio, "x: float32[4, 8]")
    kernel = KernelFacts("norm", 1, share_of_device_time=0.9)
    return Evaluation(
        "accepted", DEVICE, (Stage("verify", "passed", 0.5),), estimate=estimate, kernels=(kernel,)
    )


def rejected(code: str = "wrong_output") -> Evaluation:
    return Evaluation("rejected", DEVICE, reason=Reason(code, "the last 3 columns are wrong"))


def reply_with(number: int) -> str:
    return f"Hypothesis {number}.\n\n```python\nclass ModelNew:\n    number = {number}\n```\n"


@dataclass
class Recorded:
    """An evaluator with one verdict per candidate number; keeps what it was asked."""

    verdicts: Sequence[Evaluation]
    asked: list[int] = field(default_factory=list)

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        number = int(candidate.source.split("number = ")[1])
        self.asked.append(number)
        on_stage(Stage("verify", "passed", 0.5))
        return self.verdicts[number]


@dataclass
class Scripted:
    """A model that answers from a list, by how many turns there are."""

    replies: Sequence[str]
    name: str = "scripted"
    seen: list[ModelQuery] = field(default_factory=list)
    dollars: float | None = 0.01

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply | Exhausted:
        self.seen.append(ask)
        if ask.turn >= len(self.replies):
            return Exhausted("the script is over")
        return Reply(self.replies[ask.turn], tokens_in=10, tokens_out=5, dollars=self.dollars)

    def close(self) -> None:
        """Nothing to release."""


def history_of(*evaluations: Evaluation | None) -> History:
    request = TurnRequest("write", "scripted")
    turns = tuple(
        Turn(
            i,
            request,
            reply_with(i),
            candidate=Candidate(f"number = {i}"),
            evaluation=evaluation,
            feedback="" if evaluation is None else feedback_for(evaluation),
        )
        for i, evaluation in enumerate(evaluations)
    )
    return History(turns)
