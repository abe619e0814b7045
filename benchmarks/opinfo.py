"""PyTorch's own OpInfo samples as problems, the same torch operation as the candidate, under `--policy any`.

Nobody here wrote these inputs. Each must be accepted: a refusal is a false rejection, an error is the
judge's own. What admission rejects is named. `python -m benchmarks.opinfo [--every N]` writes the table.
"""

from __future__ import annotations

import argparse
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.inputs import InputSource
from kernelagent.tools.judge.problem.load import Arguments, LoadedProblem
from kernelagent.tools.judge.problem.oracle import Oracle
from kernelagent.tools.judge.problem.trials import rounds
from kernelagent.tools.judge.verify import compare

_RESULT = Path(__file__).parent / "results" / "opinfo.md"
_LARGEST = 1 << 16


@dataclass(frozen=True)
class Judged:
    """What became of one operation."""

    name: str
    outcome: str
    """`accepted`, `refused`, `error`, or `admission`: it is no problem that can be judged."""
    calls: int
    why: str = ""


def judged(every: int = 1) -> Iterator[Judged]:
    """Each `every`-th operation with its first sample that has a tensor of some size."""
    from torch.testing._internal.common_methods_invocations import op_db

    seen: set[str] = set()
    for op in op_db:
        if op.name in seen or not op.supports_dtype(torch.float32, "cpu"):
            continue
        seen.add(op.name)
        if len(seen) % every:
            continue
        yield _judge(op)


def _judge(op: Any) -> Judged:
    try:
        sample = _sample(op)
    except (RuntimeError, ValueError, TypeError) as error:
        return Judged(op.name, "admission", 0, _line(error))
    if sample is None:
        return Judged(op.name, "admission", 0, "no sample with a floating tensor of moderate size")
    try:
        oracle, source = _problem(op, sample)
        oracle.expect(source.draw(0))
        if not _deterministic(oracle, source):
            return Judged(
                op.name, "admission", 0, "the reference draws at random or is not deterministic"
            )
    except (ProblemError, RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        return Judged(op.name, "admission", 0, _line(error))
    calls = 0
    try:
        for item in rounds(oracle, (source,), {}, constant=True):
            for trial in item.trials:
                calls += 1
                # The candidate: the operation itself, called by somebody else.
                args, kwargs = tree_map(_copy, trial.arguments)
                with torch.no_grad():
                    answer = op.op(*args, **kwargs)
                result = compare.compare(
                    answer, trial.compared, input_set="sample", probe=trial.probe
                )
                if result.reason is not None:
                    return Judged(
                        op.name, "refused", calls, f"{trial.probe}: {result.reason.message[:160]}"
                    )
    except ProblemError as error:
        return Judged(op.name, "admission", calls, _line(error))
    except Exception as error:  # noqa: BLE001 - an error of the judge is what this looks for
        return Judged(op.name, "error", calls, f"{type(error).__name__}: {_line(error)}")
    return Judged(op.name, "accepted", calls)


def _sample(op: Any) -> Arguments | None:
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=False):
        values = (sample.input, *sample.args)
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        if any(t.is_floating_point() and 1 < t.numel() < _LARGEST for t in tensors):
            return values, dict(sample.kwargs)
    return None


def _problem(op: Any, sample: Arguments) -> tuple[Oracle, InputSource]:
    class Model(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return op.op(*args, **kwargs)

    def input_sets() -> Mapping[str, Arguments]:
        return {"sample": sample}

    problem = LoadedProblem(
        name=op.name,
        source="",
        entry_point="Model",
        constructor="init",
        build=Model,
        init_args=lambda: ((), {}),
        input_sets=input_sets,
        check=None,
    )

    def draw(_: int) -> Arguments:
        args, kwargs = tree_map(_copy, sample)
        return args, kwargs

    full_args, full_kwargs = sample
    return Oracle(problem, "cpu", nullcontext), InputSource(
        "sample", (full_args, full_kwargs), draw
    )


def _deterministic(oracle: Oracle, source: InputSource) -> bool:
    torch.manual_seed(secrets.randbelow(1 << 31))
    first = oracle.eager(source.draw(0))
    second = oracle.eager(source.draw(0))
    pairs = zip(compare.leaves(first), compare.leaves(second), strict=True)
    return all(
        torch.equal(a.nan_to_num(), b.nan_to_num())
        for (_, a), (_, b) in pairs
        if isinstance(a, torch.Tensor) and a.is_floating_point()
    )


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[-1] if lines else type(error).__name__)[:160]


def table(rows: list[Judged], seconds: float, every: int) -> str:
    """The page."""
    counts = Counter(row.outcome for row in rows)
    message = ", ".join(
        f"{counts[name]} {name}" for name in ("accepted", "refused", "error", "admission")
    )
    lines = [
        "# PyTorch's OpInfo samples, judged",
        "",
        f"`python -m benchmarks.opinfo --every {every}`, torch {torch.__version__}, {seconds:.0f} s: "
        f"{len(rows)} operations, {message}; {sum(row.calls for row in rows)} calls compared.",
        "",
        "The first float32 sample of each operation as the problem, the same operation as the candidate, in",
        "the judge's own rounds of draws and probes; without the candidate's process. `admission`: the judge",
        "refuses the problem before anybody is judged.",
        "",
        "| operation | outcome | why |",
        "|---|---|---|",
        *(
            f"| {row.name} | {row.outcome} | {row.why.replace('|', '/')} |"
            for row in rows
            if row.outcome != "accepted"
        ),
        "",
        "Accepted: " + ", ".join(row.name for row in rows if row.outcome == "accepted") + ".",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--every", type=int, default=1)
    every = asked.parse_args().every
    torch.set_num_threads(1)
    began = time.monotonic()
    rows = list(judged(every))
    _RESULT.write_text(table(rows, time.monotonic() - began, every), encoding="utf-8")
    print(Counter(row.outcome for row in rows))


if __name__ == "__main__":
    main()
