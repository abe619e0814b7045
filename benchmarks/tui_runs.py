"""Runs made up for the screens: logs of any length, written by the real log with real records.

The numbers are drawn with a seed and mean nothing; every event has the shape of a true one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import (
    DeviceFacts,
    Estimate,
    Evaluation,
    HeadroomFacts,
    Interval,
    KernelFacts,
    Reason,
    Stage,
    Timing,
)
from kernelagent.domain.events import (
    BestChanged,
    Evaluated,
    Event,
    ProblemDescribed,
    ReplyProgressed,
    ReplyReceived,
    RunFinished,
    RunStarted,
    StageFinished,
    TurnStarted,
    TurnVoid,
)
from kernelagent.domain.history import Message, TurnRequest
from kernelagent.domain.problem import InputSet, ProblemFacts, ProblemSpec, TensorFacts
from kernelagent.storage.run_log import EventLog, RunFolder

VIRTUAL = DeviceFacts("virtual", "H200, not present", "sm_90", "2.13.0", "3.9.0")
CUDA = DeviceFacts("cuda", "NVIDIA H200", "sm_90", "2.13.0", "3.9.0", "570.1")
CONFIG = {"model": ["openai/gpt-5"], "strategy": "tree", "turns": 1000, "budget_usd": 5.0}
STAGES = tuple(Stage(name, "passed", 0.4) for name in ("build", "verify", "measure", "profile"))
FACTS = ProblemFacts(
    name="RMSNormResidual",
    source="class Model: ...\n",
    entry_point="Model",
    constructor="init",
    init_arguments="(4096)",
    input_sets=(
        InputSet("default", (TensorFacts("x", (64, 4096), "float32"),), "(x: float32[64, 4096])"),
    ),
    outputs=(TensorFacts("output", (64, 4096), "float32", kind="output"),),
    state=(TensorFacts("weight", (4096,), "float32", kind="parameter"),),
    mode="eval",
    sha256="0" * 64,
    precision="tf32 off",
)
CODE = '''import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_norm(x_ptr, residual_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    """One program a row: the row is read once and kept."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=mask, other=0.0).to(tl.float32)
    x += tl.load(residual_ptr + row * columns + at, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + at, mask=mask, other=0.0)
    tl.store(out_ptr + row * columns + at, x * scale * weight, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, columns, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(columns))
        self.eps = eps

    def forward(self, x, residual):
        out = torch.empty_like(x)
        rms_norm[(x.shape[0],)](x, residual, self.weight, out, x.shape[1], self.eps,
                                BLOCK=BLOCK_HERE, num_warps=WARPS_HERE)
        return out
'''


def code(number: int) -> str:
    """A candidate like no other."""
    block, warps = 1024 << number % 4, 1 << number % 5
    text = CODE.replace("BLOCK_HERE", str(block)).replace("WARPS_HERE", str(warps))
    return f"# version {number}\n{text}"


def reply(number: int) -> str:
    return f"Keep the row in registers, version {number}.\n\n```python\n{code(number)}```\n"


def first_events(run: str, *, measured: bool) -> Iterator[Event]:
    """What stands at the head of every log."""
    yield RunStarted(run, ProblemSpec(path="rms_norm_residual.py"), CONFIG, {"torch": "2.13.0"})
    yield ProblemDescribed(FACTS, CUDA if measured else VIRTUAL, "none")


def evaluation(dice: random.Random, number: int, turns: int, *, measured: bool) -> Evaluation:
    """Better with time, on the whole; about half of them rejected."""
    device = CUDA if measured else VIRTUAL
    if dice.random() < 0.45:
        name = dice.choice(["wrong_output", "compile_error", "out_of_bounds", "data_race"])
        detail = {"pattern": "the last 3 columns of every row", "share_wrong": 0.01}
        reason = Reason(name, "row 17: 3 of 4096 columns differ from the reference", detail)
        return Evaluation("rejected", device, STAGES[:2], reason)
    ratio = (0.8 + 1.4 * number / turns) * dice.uniform(0.85, 1.15)
    kernel = KernelFacts(
        "rms_norm", 1, (64, 1, 1), 7, 0.93, 4, 3, 48, 0, 2048, 0.75, "registers", bound="dram"
    )
    result = Interval(ratio, ratio * 0.97, ratio * 1.03)
    return Evaluation(
        "accepted",
        device,
        STAGES,
        kernels=(kernel,),
        timing=Timing(40.0 / ratio, 40.0, result, 30.0, result) if measured else None,
        estimate=None
        if measured
        else Estimate(40.0 / ratio, 40.0, "dram", ratio, "x: float32[64, 4096]"),
        headroom=HeadroomFacts("default", 3162112, {}, 9.4, "dram", 9.4 * ratio / 40, 0.5),
    )


def turn_events(
    dice: random.Random, number: int, turns: int, best: list[float], *, measured: bool
) -> Iterator[Event]:
    """One turn from its question to its verdict; `best` keeps the score to beat."""
    parent = None if number == 0 else max(0, number - dice.choice([1, 1, 1, 1, 4]))
    request = TurnRequest(
        "write" if parent is None else dice.choice(["repair", "optimise", "rethink"]),
        "openai/gpt-5",
        parent,
        () if parent is None else (parent,),
    )
    yield TurnStarted(number, request, "0" * 64, batch=(number,))
    message = "I would rather think first." if number % 11 == 10 else reply(number)
    yield ReplyReceived(number, "openai/gpt-5", message, 2100, 640, 0.004, seconds=9.0)
    if number % 11 == 10:
        yield TurnVoid(number, "no python block in the reply")
        return
    result = evaluation(dice, number, turns, measured=measured)
    for stage in result.stages:
        yield StageFinished(number, stage)
    source = Candidate(code(number))
    feedback = f"{result.verdict}: see the evidence.\nKernel `rms_norm`: bound by dram."
    yield Evaluated(number, source.id, source.source, result, result.score, feedback)
    if result.score > best[0]:
        best[0] = result.score
        yield BestChanged(number, result.score)


def made_events(turns: int, *, measured: bool = False, seed: int = 1) -> Iterator[Event]:
    """A run of so many turns that is still going on."""
    dice, best = random.Random(seed), [0.0]
    yield from first_events("20260101-120000-rms_norm-0000", measured=measured)
    for number in range(turns):
        yield from turn_events(dice, number, turns, best, measured=measured)


def made_run(
    runs: Path,
    turns: int,
    *,
    measured: bool = False,
    finished: bool = False,
    streaming: bool = False,
    began: float | None = None,
) -> RunFolder:
    """A run's folder with such a log, one event every 0.7 s, and the prompts of its turns.

    `began`: in seconds since the epoch; by default the run has come to its end just now.
    """
    began = time.time() - 0.7 * 8 * turns if began is None else began
    folder = RunFolder.create(runs, "rms_norm", now=began)
    ticks = iter(range(100_000_000))
    log = EventLog(folder, clock=lambda: began + 0.7 * next(ticks))
    for event in made_events(turns, measured=measured):
        log.publish(event)
        if isinstance(event, TurnStarted):
            asked = (Message("system", "You write kernels."), Message("user", "Make it faster."))
            folder.keep_prompt(event.turn, asked)
    if finished:
        log.publish(RunFinished("none", 1, f"the budget of {turns} turns is spent; none held"))
    if streaming:
        log.publish(
            TurnStarted(turns, TurnRequest("optimise", "openai/gpt-5", turns - 1), "0" * 64)
        )
        text = reply(turns)[:700]
        log.publish(ReplyProgressed(turns, text, len(text)))
    log.close()
    return folder
