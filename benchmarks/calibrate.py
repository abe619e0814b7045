"""Predicted beside measured time, for five operations: `python -m benchmarks.calibrate`.

Prints the table and writes it to benchmarks/results/calibrate.md. Without a GPU it predicts only,
and the file says so. Exit status 0 either way: what the table shows is for a person to judge.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton

from benchmarks.cost_cases import OPERATIONS, Operation
from benchmarks.counting import CountingLauncher
from kernelagent.domain.errors import EnvironmentFault
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings, ceilings_for
from kernelagent.tools.virtual.cost.eager import eager_rows
from kernelagent.tools.virtual.cost.forward_cost import ForwardEstimate, estimate_eager, total
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter

RESULT = Path(__file__).parent / "results" / "calibrate.md"
_NO_GPU = "no GPU: predicted only. Nothing in this table was measured."
TOLERANCE = 0.05
"""Absolute and relative; bf16 results of sizes around one."""
_REPETITIONS = 30
_SAMPLED = {"without dot": 4, "spilling": 4}
"""Programs interpreted of variants whose programs are slow to interpret."""


@dataclass(frozen=True)
class Row:
    operation: str
    variant: str
    predicted: ForwardEstimate
    measured_us: float | None
    """Median; None without a GPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    gpu = torch.device("cuda") if torch.cuda.is_available() else None
    ceilings = ceilings_for(_target_of_gpu() if gpu is not None else options.target)
    rows: list[Row] = []
    for operation in OPERATIONS:
        # Measured first: interpreting patches triton.language, and leaves it as it was afterwards.
        times = _measure(operation, gpu) if gpu is not None else {}
        for name, estimate in _predict(operation, ceilings, options.programs):
            rows.append(Row(operation.name, name, estimate, times.get(name)))
            print(_line(rows[-1]), flush=True)
    text = _page(rows, ceilings, gpu)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    print(f"\n{text.splitlines()[2]}\nwritten to {options.out}")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibrate", description=__doc__)
    parser.add_argument("--target", default="sm_90", help="what to predict for without a GPU")
    parser.add_argument("--programs", type=int, default=64, help="programs interpreted of a grid")
    parser.add_argument("--out", type=Path, default=RESULT)
    return parser.parse_args(arguments)


def _target_of_gpu() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _predict(
    operation: Operation, ceilings: DeviceCeilings, programs: int
) -> Iterator[tuple[str, ForwardEstimate]]:
    on_meta = operation.inputs(torch.device("meta"), 1)
    rows = eager_rows(operation.eager, (on_meta,), {}, ceilings.target)
    yield "eager", estimate_eager(rows, ceilings)
    tensors = operation.inputs(torch.device("cpu"), 1)
    interpreter = Interpreter()
    for name, variant in operation.variants.items():
        most = min(programs, _SAMPLED.get(name, programs))
        launcher = CountingLauncher(interpreter, ceilings.target, most)
        variant(launcher, tensors)
        yield name, total(item.estimate for item in launcher.counted)
    interpreter.leave()


def _measure(operation: Operation, gpu: torch.device) -> dict[str, float]:
    tensors = operation.inputs(gpu, 1)
    expected = operation.eager(tensors).float()
    times = {"eager": _median_us(lambda: operation.eager(tensors))}
    for name, variant in operation.variants.items():
        got = variant(_launch, tensors).float()
        if not torch.allclose(got, expected, rtol=TOLERANCE, atol=TOLERANCE):
            raise EnvironmentFault(f"{operation.name}, {name}: computes something else than eager")
        times[name] = _median_us(lambda variant=variant: variant(_launch, tensors))
    return times


def _launch(kernel: Any, grid: tuple[int, ...], num_warps: int = 4, **arguments: Any) -> None:
    kernel[grid](**arguments, num_warps=num_warps)


def _median_us(call: Callable[[], torch.Tensor]) -> float:
    """Median microseconds by CUDA events, L2 emptied before every call as the model assumes."""
    flushed = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        call()
    times = []
    for _ in range(_REPETITIONS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flushed.zero_()
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def _page(rows: Sequence[Row], ceilings: DeviceCeilings, gpu: torch.device | None) -> str:
    where = _NO_GPU if gpu is None else f"Measured on {torch.cuda.get_device_name()}."
    head = [
        "# Estimated and measured time",
        "",
        where,
        "",
        f"Predicted for {ceilings.target} ({ceilings.name}); torch {torch.__version__}, triton "
        f"{triton.__version__}. Predictions are estimates from counted traffic and machine code; "
        "differences within their intervals mean nothing.",
        "",
        "| operation | variant | estimate us | bound | measured us | estimate / measured |",
        "| --- | --- | ---: | --- | ---: | ---: |",
    ]
    return "\n".join([*head, *(_line(row) for row in rows), "", *_orderings(rows)]) + "\n"


def _line(row: Row) -> str:
    measured, ratio = "not measured", "-"
    if row.measured_us is not None:
        measured = f"{row.measured_us:.1f}"
        ratio = f"{row.predicted.us / row.measured_us:.2f}"
    cells = (row.operation, row.variant, f"{row.predicted.us:.1f}", row.predicted.bound)
    return "| " + " | ".join((*cells, measured, ratio)) + " |"


def _orderings(rows: Sequence[Row]) -> Iterator[str]:
    """Whether each expected ordering is predicted, and measured where that was possible."""
    yield "| expected faster | expected slower | predicted so | measured so |"
    yield "| --- | --- | --- | --- |"
    result = {(row.operation, row.variant): row for row in rows}
    for operation in OPERATIONS:
        for better, worse in operation.slower:
            fast, slow = result[operation.name, better], result[operation.name, worse]
            predicted = "yes" if fast.predicted.us < slow.predicted.us else "NO"
            measured = "not measured"
            if fast.measured_us is not None and slow.measured_us is not None:
                measured = "yes" if fast.measured_us < slow.measured_us else "NO"
            yield f"| {operation.name}: {better} | {worse} | {predicted} | {measured} |"


if __name__ == "__main__":
    raise SystemExit(main())
