"""Runs written by hand for the tests of memory: turns with verdicts, as a log's fold would give them."""

from __future__ import annotations

from dataclasses import replace

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import (
    DeviceFacts,
    Estimate,
    Evaluation,
    Hashes,
    KernelFacts,
    Reason,
)
from kernelagent.domain.history import History, Recalled, RequestKind, Turn, TurnRequest
from kernelagent.domain.problem import InputSet, ProblemFacts, TensorFacts
from kernelagent.storage.run_state import RunState

DEVICE = DeviceFacts("virtual", "H200, not present", "sm_90", "2.13.0", "3.9.0")
ELSEWHERE = replace(DEVICE, target="sm_80")
HARNESS = "f" * 64
SOFTMAX = "class Model:\n    def forward(self, x):\n        return torch.softmax(x, -1)\n"
POWER = "`k` does not compile at line 9: arange's range must be a power of 2\n    tl.arange(0, N)"
RACE = "`k`: program (1, 0, 0) overwrites 512 elements of `y` that program (0, 0, 0) stored; mask"


def facts(source: str = SOFTMAX) -> ProblemFacts:
    tensor = TensorFacts("x", (4, 8), "float32")
    return ProblemFacts(
        name="toy",
        source=source,
        entry_point="Model",
        constructor="init",
        init_arguments="()",
        input_sets=(InputSet("default", (tensor,), "(x: float32[4, 8])"),),
        outputs=(tensor,),
        state=(),
        mode="eval",
        sha256="0" * 64,
        precision="tf32 off",
    )


def rejected(code: str, message: str) -> Evaluation:
    hashes = Hashes("p", "c", HARNESS)
    return Evaluation("rejected", DEVICE, reason=Reason(code, message), hashes=hashes)


def accepted(ratio: float, launches: int = 1, warps: int = 4) -> Evaluation:
    kernel = KernelFacts(
        "k", launches, grid=(8, 1, 1), share_of_device_time=1.0, num_warps=warps, bound="launch"
    )
    estimate = Estimate(10.0 / ratio, 10.0, "launch", ratio, "x: float32[4, 8]")
    hashes = Hashes("p", "c", HARNESS)
    return Evaluation("accepted", DEVICE, estimate=estimate, kernels=(kernel,), hashes=hashes)


def turn(
    index: int,
    verdict: Evaluation,
    kind: RequestKind = "write",
    parent: int | None = None,
    recalled: tuple[str, ...] = (),
    said: str = "I mask the row's end.",
    program: int | None = None,
) -> Turn:
    reported = tuple(Recalled(item, "words") for item in recalled)
    number = index if program is None else program
    return Turn(
        index,
        TurnRequest(kind, "m", parent=parent, recalled=reported),
        reply=f"{said}\n```python\nclass ModelNew: n = {number}\n```",
        candidate=Candidate(f"class ModelNew:\n    n = {number}\n"),
        evaluation=verdict,
    )


def run_of(
    *turns: Turn, name: str = "run-1", device: DeviceFacts = DEVICE, source: str = SOFTMAX
) -> RunState:
    return RunState(run=name, facts=facts(source), device=device, history=History(turns))
