"""Whether the judge's times are true: beside triton's own benchmark, and of a thing against itself."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.gpu_first.options import Options
from benchmarks.gpu_first.programs import program
from benchmarks.gpu_first.record import NotPossible, Record
from benchmarks.gpu_first.sizes import EXAMPLES, write_at_gpu_size
from benchmarks.turn_latency import rms_norm_candidate

_ALLOWED = 0.10
"""How far the judge's and triton's device time may lie apart before it is worth a look."""


def truth(record: Record, options: Options) -> str:
    """One candidate at two sizes: as called, on the device, and what `triton.testing.do_bench` says."""
    if options.device != "cuda":
        raise NotPossible("not done: nothing is timed on the virtual device")
    record.head("what", "side", "judge, as called µs", "judge, device µs", "do_bench µs", "ratio")
    apart = []
    for size in ("as shipped", "at its size for a GPU"):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            problem = EXAMPLES / "rms_norm_residual.py"
            if size != "as shipped":
                problem = write_at_gpu_size(problem, folder)
            candidate = folder / "candidate.py"
            candidate.write_text(rms_norm_candidate(), encoding="utf-8")
            apart += _compared(record, size, problem, candidate)
    costs = {}
    for recorder in ("off", "on"):
        command = [sys.executable, "-m", "benchmarks.gpu_first.launch_cost", recorder]
        ended = program(command, seconds=45)
        costs[recorder] = ended.output.strip() or ended.shown
        record.add(f"a launch, recorder {recorder}", "host", costs[recorder], "", "", "")
    return (
        f"{len(apart)} of 4 device times lie more than {_ALLOWED:.0%} from do_bench"
        f"{': ' + ', '.join(apart) if apart else ''}; a launch costs {costs['off']} µs without the "
        f"recorder and {costs['on']} µs with it"
    )


def against_itself(record: Record, options: Options) -> str:
    """Certificates of a thing against itself, and of a known difference of 3 %."""
    from benchmarks.certificates import EXPECTED, PAIRS, on_device

    if options.device != "cuda":
        raise NotPossible("not done: nothing is timed on the virtual device")
    record.head("pair", "what", "ratio", "low", "high", "seconds", "as it must be")
    wrong = 0
    for pair in PAIRS:
        began = time.monotonic()
        result = on_device(pair, "cuda", repeat=1, tries=2)
        for what, certificates, expected in (
            (f"{EXPECTED - 1:.0%} less work", result.repeated, lambda low: low > 1.0),
            ("the same", result.itself, lambda low: low <= 1.0),
        ):
            for item in certificates:
                right = expected(item.interval.low)
                wrong += not right
                record.add(
                    pair, what, f"{item.interval.value:.4f}", f"{item.interval.low:.4f}",
                    f"{item.interval.high:.4f}", f"{item.seconds:.1f}", "yes" if right else "NO",
                )  # fmt: skip
        record.note(f"{pair}: {time.monotonic() - began:.0f} s")
    return f"{len(record.rows)} certificates, {wrong} not as they must be"


def _compared(record: Record, size: str, problem: Path, candidate: Path) -> list[str]:
    from kernelagent.domain.candidate import Candidate
    from kernelagent.domain.configuration.judge_settings import JudgeSettings
    from kernelagent.domain.errors import EnvironmentFault
    from kernelagent.domain.problem import ProblemSpec
    from kernelagent.tools.judge_client import JudgeProcess

    with JudgeProcess(JudgeSettings(ProblemSpec(path=str(problem)), device="cuda")) as judge:
        result = judge.evaluate(Candidate(candidate.read_text(encoding="utf-8")), lambda _: None)
    if result.timing is None:
        raise EnvironmentFault(f"{size}: the judge timed nothing: {result.reason}")
    theirs = _benched(problem, candidate)
    timing = result.timing
    rows = {
        "candidate": (timing.candidate_us, timing.device_us),
        "eager": (timing.eager_us, None),
    }
    apart = []
    for side, (called, device) in rows.items():
        own = device or called
        ratio = own / theirs[side]
        if abs(ratio - 1) > _ALLOWED:
            apart.append(f"{side} {size}")
        record.add(
            size, side, f"{called:.2f}", "-" if device is None else f"{device:.2f}",
            f"{theirs[side]:.2f}", f"{ratio:.2f}",
        )  # fmt: skip
    return apart


def _benched(problem: Path, candidate: Path) -> dict[str, float]:
    """Median microseconds by triton's benchmark, which empties the L2 before every call."""
    import torch
    from triton.testing import do_bench

    reference, answer = _loaded(problem, "reference"), _loaded(candidate, "answer")
    inputs = [tensor.to("cuda") for tensor in reference.get_inputs()]
    arguments = reference.get_init_inputs()
    modules = {
        "candidate": answer.ModelNew(*arguments).to("cuda").eval(),
        "eager": reference.Model(*arguments).to("cuda").eval(),
    }
    with torch.no_grad():
        return {
            side: 1e3 * float(do_bench(_call(module, inputs), return_mode="median"))
            for side, module in modules.items()
        }


def _call(module: Any, inputs: list[Any]) -> Any:
    return lambda: module(*inputs)


def _loaded(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
