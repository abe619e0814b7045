"""The judge put to the test on the device: its corpora, and what only a GPU can do wrong."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.gpu_first.options import Options
from benchmarks.gpu_first.record import Record
from benchmarks.gpu_first.sizes import EXAMPLES
from benchmarks.turn_latency import rms_norm_candidate
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.corpus.catalogue import entries
from kernelagent.tools.corpus.check import check
from kernelagent.tools.corpus.fixture import edited, honest_kernel, problem_path
from kernelagent.tools.corpus.sample import expected_seconds, sample
from kernelagent.tools.judge_client import JudgeProcess


@dataclass(frozen=True)
class Hazard:
    """A candidate, the policy it is judged under, and the codes it may be refused with."""

    name: str
    problem: str
    """A base of the corpus, or `example`."""
    source: str
    policy: str
    codes: frozenset[str]
    """Empty: it must be accepted."""
    needs_gpu: bool = False


_STORE = "    tl.store(out_ptr + i, tl.maximum(x, 0.0) * w + b, mask=mask)"
_FAR_AWAY = "    tl.store(out_ptr + i + (1 << 40), tl.maximum(x, 0.0) * w + b, mask=mask)"
_ENDLESS = """    while tl.load(x_ptr, volatile=True) < 1e30:
        tl.store(out_ptr + i, tl.maximum(x, 0.0) * w + b, mask=mask)"""
_COMPILED = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self._compiled = torch.compile(lambda x, w, b: torch.relu(x) * w + b)

    def forward(self, x):
        return self._compiled(x, self.weight, self.bias)
"""


def corpora(record: Record, options: Options) -> str:
    """The sample of `doctor --judge --quick` first, then every fifth of the rest; a row for each fixture.

    Stopped at its minutes, the rows until then count.
    """
    record.head("kind", "threat", "name", "expected", "got", "as it must be", "seconds")
    places = {entry.fixture: entry for entry in entries(options.device)}
    first = [fixture for fixture in sample() if fixture in places]
    quick = [entry.fixture for entry in entries(options.device, "quick")]
    rest = [fixture for fixture in dict.fromkeys(quick) if fixture not in first]
    record.note(
        f"expected: {expected_seconds(first):.0f} s for the first {len(first)}, "
        f"{expected_seconds(rest):.0f} s for the other {len(rest)}"
    )
    wrong = 0
    for fixtures in (first, rest):
        for item in check(fixtures, device=options.device):
            entry = places[item.fixture]
            wrong += not item.as_expected
            record.add(
                entry.kind, entry.threat or "", item.fixture.name, item.fixture.code or "accepted",
                item.code or "accepted",
                "yes" if item.as_expected else f"NO: {item.message[:150]}", f"{item.seconds:.1f}",
            )  # fmt: skip
    return f"{len(record.rows)} fixtures, {wrong} not as they must be"


def hazards(record: Record, options: Options) -> str:
    """Each in a judge of its own, so that what one spoils does not spoil the next; the hang last."""
    record.head("what", "policy", "expected", "got", "as it must be", "seconds", "message")
    wrong = 0
    chosen = [item for item in every_hazard() if options.device == "cuda" or not item.needs_gpu]
    for hazard in chosen:
        path = problem_path(hazard.problem)
        if hazard.problem == "example":
            path = EXAMPLES / "rms_norm_residual.py"
        settings = JudgeSettings(
            ProblemSpec(path=str(path)), device=options.device, policy=hazard.policy
        )
        with JudgeProcess(settings) as judge:
            result = judge.verdict(Candidate(hazard.source), lambda _: None)
        got = result.reason.code if result.reason else "accepted"
        right = got in hazard.codes if hazard.codes else result.accepted
        wrong += not right
        record.add(
            hazard.name, hazard.policy, " or ".join(sorted(hazard.codes)) or "accepted", got,
            "yes" if right else "NO", f"{sum(stage.seconds for stage in result.stages):.1f}",
            result.reason.message[:200] if result.reason else "",
        )  # fmt: skip
    return f"{len(chosen)} candidates, {wrong} not as they must be"


def every_hazard() -> tuple[Hazard, ...]:
    """The candidates of this stage; the corpora have many more."""
    honest, problem = honest_kernel("relu_affine"), "relu_affine"
    return (
        Hazard("an honest kernel", "example", rms_norm_candidate(), "pure", frozenset()),
        Hazard("torch.compile in the candidate", problem, _COMPILED, "any", frozenset(), True),
        Hazard(
            "a store far out of bounds", problem, edited(honest, (_STORE, _FAR_AWAY)), "triton",
            frozenset({"out_of_bounds", "crash", "runtime_error"}),
        ),
        Hazard("an endless kernel", problem, edited(honest, (_STORE, _ENDLESS)), "triton",
               frozenset({"timeout"})),
    )  # fmt: skip
