"""What the guard of an emitted module costs a call, in microseconds.

`python -m benchmarks.guard_cost [--write FILE]`. It times `_Guard.refusal`, on the CPU and without a
kernel, for a flat module of ten parameters and for five linear layers. The least of many batches is
what the code needs; the median is what it got on a machine with other work on it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import DeviceFacts, Evaluation
from kernelagent.domain.problem import ProblemFacts, TensorFacts
from kernelagent.dropin.emit import Certificate, emit_module

BATCHES = 1500
CALLS = 100
"""In a batch."""
BUDGET_US = 5.0
CANDIDATE = """\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {state}

    def forward(self, *args):
        return args[0]
"""
FLAT = "; ".join(f"self.p{i} = torch.nn.Parameter(torch.randn(8))" for i in range(10))
LAYERS = "; ".join(f"self.l{i} = torch.nn.Linear(8, 8)" for i in range(5))


def emitted(state: str, inputs: int, folder: Path) -> Any:
    """The emitted file for a module with this state and this number of tensor inputs, imported."""
    source = CANDIDATE.format(state=state)
    space: dict[str, Any] = {}
    exec(source, space)
    rows = tuple(
        TensorFacts(name, tuple(tensor.shape), "float32", tuple(tensor.stride()))
        for name, tensor in space["ModelNew"]().state_dict().items()
    )
    facts = ProblemFacts(
        "guard", "", "ModelNew", "init", "()", (), (), rows, "eval", "0" * 64, "tf32 off"
    )
    tensor = {"dtype": "float32", "shape": [64, 64], "strides": [64, 1]}
    envelope = {
        "input_sets": [{"name": "default", "args": [tensor] * inputs}],
        "modes": ["eval"],
        "contiguous": True,
        "device_types": ["cpu"],
    }
    device = DeviceFacts("virtual", "none", "sm_90", str(torch.__version__), "none")
    evaluation = Evaluation("accepted", device, envelope=envelope)
    certificate = Certificate("benchmark", "2026-01-01", "any", "eager", "none", "benchmark")
    name = f"emitted_{abs(hash((state, inputs)))}"
    path = folder / f"{name}.py"
    path.write_text(emit_module(Candidate(source), facts, evaluation, certificate))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Cost:
    """Microseconds of one guarded call's check, with the loop around it (0.03)."""

    least: float
    median: float


def cost_us(state: str, inputs: int, *, grad: bool) -> Cost:
    """What a call costs that is like the one before."""
    with tempfile.TemporaryDirectory() as folder:
        module = emitted(state, inputs, Path(folder))
        reference = module.ModelNew().eval().requires_grad_(requires_grad=False)
        guard = module.optimized(reference)._dropin
    args, kwargs = tuple(torch.randn(64, 64) for _ in range(inputs)), {}
    clock, result, refusal, calls = time.perf_counter_ns, [], guard.refusal, range(CALLS)
    with torch.set_grad_enabled(grad):
        for _ in range(BATCHES):
            start = clock()
            for _ in calls:
                refusal(args, kwargs)
            result.append((clock() - start) / CALLS / 1000)
        assert refusal(args, kwargs) is None
    return Cost(min(result), statistics.median(result))


def table(rows: list[tuple[str, int, bool, Cost]], load: tuple[float, float]) -> str:
    """Markdown; `load`: of the machine before and after."""
    lines = [
        "# What the guard of an emitted module costs a call",
        "",
        f"`python -m benchmarks.guard_cost --write benchmarks/results/guard.md`, Python "
        f"{platform.python_version()}, torch {torch.__version__}, {os.cpu_count()} cores at a load of "
        f"{load[0]:.1f} to {load[1]:.1f}; microseconds a call, of {BATCHES} batches of {CALLS}.",
        "",
        "| module | inputs | gradients recorded | least | median |",
        "|---|---|---|---|---|",
    ]
    for label, inputs, grad, cost in rows:
        reported = "yes" if grad else "no"
        lines.append(f"| {label} | {inputs} | {reported} | {cost.least:.2f} | {cost.median:.2f} |")
    worst = max(cost.least for *_, cost in rows)
    return "\n".join([*lines, "", f"Worst {worst:.2f} µs, limit {BUDGET_US:g} µs."]) + "\n"


def main() -> int:
    """Print one line a case; 1 when the least of one is over the budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    rows = [
        (label, inputs, grad, cost_us(state, inputs, grad=grad))
        for label, state in (("10 parameters, flat", FLAT), ("10 parameters, 5 layers", LAYERS))
        for inputs in (1, 2)
        for grad in (False, True)
    ]
    text = table(rows, (before, os.getloadavg()[0]))
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return int(max(cost.least for *_, cost in rows) > BUDGET_US)


if __name__ == "__main__":
    sys.exit(main())
