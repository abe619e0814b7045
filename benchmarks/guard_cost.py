"""What the guard of an emitted module costs a call: the median of 20,000, in microseconds.

Run `python benchmarks/guard_cost.py`. It times `_Guard.refusal`, on the CPU
and without a kernel, for a flat module of ten parameters and for five linear layers.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kernelagent.candidate import Candidate
from kernelagent.emit import Certificate, emit_module
from kernelagent.evaluation import DeviceFacts, Evaluation
from kernelagent.problem import ProblemFacts, TensorFacts

CALLS = 20_000
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


def median_us(state: str, inputs: int, *, grad: bool) -> float:
    """Median cost of one guarded call's check, the clock's own cost taken off."""
    with tempfile.TemporaryDirectory() as folder:
        module = emitted(state, inputs, Path(folder))
        reference = module.ModelNew().eval().requires_grad_(requires_grad=False)
        guard = module.optimized(reference)._dropin
    args, kwargs = tuple(torch.randn(64, 64) for _ in range(inputs)), {}
    clock, samples, empty = time.perf_counter_ns, [], []
    with torch.set_grad_enabled(grad):
        for _ in range(CALLS // 4):
            assert guard.refusal(args, kwargs) is None
        for _ in range(CALLS):
            start = clock()
            guard.refusal(args, kwargs)
            between = clock()
            samples.append(between - start)
            empty.append(clock() - between)
    return (statistics.median(samples) - statistics.median(empty)) / 1000


def main() -> int:
    """Print one line a case; 1 when a median is over the budget."""
    costs = []
    for label, state in (("10 parameters, flat", FLAT), ("10 parameters, 5 layers", LAYERS)):
        for inputs in (1, 2):
            for grad in (False, True):
                cost = median_us(state, inputs, grad=grad)
                costs.append(cost)
                print(f"{label:24s} {inputs} inputs  grad {grad!s:5s} {cost:6.2f} µs")
    return int(max(costs) > BUDGET_US)


if __name__ == "__main__":
    sys.exit(main())
