"""Logs of runs for tests of the report: a recorded one, and ones put together by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import (
    Case,
    Correctness,
    DeviceFacts,
    Disclosure,
    Evaluation,
    Hashes,
    InputSetResult,
    Interval,
    KernelFacts,
    Reason,
    Stage,
    Timing,
)
from kernelagent.domain.events import (
    Evaluated,
    Event,
    Logged,
    ModuleEmitted,
    ProblemDescribed,
    Remarked,
    ReplyReceived,
    RunFinished,
    RunStarted,
    TurnStarted,
    TurnVoid,
    WinnerMeasured,
)
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.problem import InputSet, ProblemFacts, ProblemSpec, Remark, TensorFacts
from kernelagent.domain.serialization import to_data
from kernelagent.report.terminal.browse import contents_of

RECORDED = Path(__file__).parent / "rms_norm_residual.events.jsonl"
GPU = DeviceFacts("cuda", "NVIDIA H200", "sm_90", "2.13.0", "3.9.0", driver="580.1")
HEADROOM = {
    "input_set": "default", "fewest_bytes": 3_000_000, "fewest_flops": {"bf16": 8_000_000_000},
    "least_us": 31.0, "binds": "math", "attained": 0.5, "left": 0.5, "ceilings": "data sheet",
}  # fmt: skip
SOURCE = 'class ModelNew:\n    """Fast."""\n'


def recorded() -> list[Logged]:
    return list(contents_of(RECORDED).events)


def timing(value: float, *, compiled: bool = True) -> Timing:
    ratio = Interval(value, value - 0.02, value + 0.02)
    against = Interval(1.11, 1.08, 1.14) if compiled else None
    return Timing(
        candidate_us=100 / value,
        eager_us=100.0,
        speedup_eager=ratio,
        compile_us=61.0 if compiled else None,
        speedup_compile=against,
        noise_floor=Interval(1.0, 0.995, 1.006),
        attempts=2,
    )


def measured(value: float, text: str = "norm", *, compiled: bool = True) -> Evaluation:
    """Accepted on a GPU, with two kernels, one of which multiplies matrices."""
    case = Case("default", "natural", "output", 1e-3, 4e-3, 1e-2, 8e-2, passed=True)
    product = KernelFacts(
        text, 2, (8, 4, 1), 12, 0.75, 8, 3, 128, 4, 65536, 0.5, "shared memory", "wgmma",
        loaded_bytes=3_000_000, stored_bytes=1_000_000, fewest_loaded_bytes=2_000_000,
        dram_bytes=4_000_000, flops=8_000_000_000, bound="dot", tier="compiler+cupti",
    )  # fmt: skip
    return Evaluation(
        "accepted",
        GPU,
        (
            Stage("verify", "passed", 1.0),
            Stage("audit", "passed", 1.0),
            Stage("measure", "passed", 2.0),
        ),
        correctness=Correctness(17, (case,), 1e-3, 4e-3),
        kernels=(product, KernelFacts("tail", 1)),
        timing=timing(value, compiled=compiled),
        disclosures=(Disclosure("library_share", f"torch computes {text}"),),
        headroom=HEADROOM,
        faster=True,
        sandbox="landlock",
        hashes=Hashes("a" * 64, "b" * 64, "c" * 64),
        precision=f"tf32 off {text}",
        input_sets=tuple(
            InputSetResult(name, f"(x: float32[{size}, 8])", None, True, timing(value))
            for name, size in ((text, 4), ("wide", 4096))
        ),
    )


def refused(text: str) -> Evaluation:
    return Evaluation("rejected", GPU, reason=Reason("wrong_output", text))


def facts(text: str) -> ProblemFacts:
    return ProblemFacts(
        name=text,
        source=f"class Model: ...\n# {text}\n",
        entry_point="Model",
        constructor="init",
        init_arguments=f"({text})",
        input_sets=(InputSet(text, (), f"(x: float32[4, 8], {text})"),),
        outputs=(),
        state=(TensorFacts(text, (8,), "float32", kind="parameter"),),
        mode="eval",
        sha256="0" * 64,
        precision="tf32 off",
        disclosures=(Remark("insensitive_argument", text),),
    )


def run_on_gpu(text: str = "norm", *, compiled: bool = True, emitted: bool = True) -> list[Logged]:
    """Four turns: rejected, void, accepted, accepted; `text` stands wherever another wrote words."""
    config = replace(RunConfig(), device="cuda", model=("scripted",), strategy="chains")
    events: list[Event] = [
        RunStarted("run-1", ProblemSpec(path=f"{text}.py"), to_data(config), {"torch": "2.13.0"}),
        ProblemDescribed(facts(text), GPU, "landlock"),
        *_turn(0, None, text, refused(text)),
        *_turn(1, 0, text, None),
        *_turn(2, 0, text, measured(1.31, text)),
        *_turn(3, 2, text, measured(1.64, text)),
        Remarked("warning", text),
    ]
    if emitted:
        winner = measured(1.62, text, compiled=compiled)
        events += [WinnerMeasured(3, winner), ModuleEmitted(3, f"{text}_optimized.py", "d" * 64)]
        events.append(RunFinished("better", 0, "the budget of 4 turns is spent", 3))
    else:
        events.append(RunFinished("none", 1, f"nothing was faster: {text}"))
    return logged(events)


def _turn(turn: int, parent: int | None, text: str, found: Evaluation | None) -> list[Event]:
    request = TurnRequest("write" if parent is None else "optimise", text, parent)
    begun = [
        TurnStarted(turn, request, "0" * 64),
        ReplyReceived(turn, text, f"An idea: {text}\n\n```python\n{SOURCE}```", 900, 100, 0.25),
    ]
    if found is None:
        return [*begun, TurnVoid(turn, f"no code: {text}")]
    source = f"{SOURCE}# {turn} {text}\n"
    return [*begun, Evaluated(turn, f"id{turn}", source, found, 1.0, f"Feedback: {text}")]


def logged(events: Iterable[Event]) -> list[Logged]:
    return [Logged(n, 1000.0 + 10 * n, event) for n, event in enumerate(events)]
