"""PyTorch's own OpInfo samples as problems, the same torch operation as the candidate, under `--policy any`.

    python -m benchmarks.opinfo [--train] [--dtype bfloat16] [--every N] [--only NAME...]

Nobody here wrote these inputs. Each must be accepted: a refusal is a false rejection, an error is the
judge's own. What admission rejects is named. In a 16-bit type the candidate computes as kernels do: in
float32, rounded once at the end. With `--train` it is held to the judge's training steps, too.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.inputs import InputSource
from kernelagent.tools.judge.problem.load import Arguments, LoadedProblem
from kernelagent.tools.judge.problem.oracle import Oracle
from kernelagent.tools.judge.problem.rounds import Round, Trial
from kernelagent.tools.judge.problem.training import require_trainable, training_rounds
from kernelagent.tools.judge.problem.trials import rounds
from kernelagent.tools.judge.verify import compare
from kernelagent.tools.judge.verify.candidate_process import Answer
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.verify.right_answer import RightAnswer
from kernelagent.tools.torch_dtypes import HALVES
from kernelagent.tools.training_step import take

_RESULTS = Path(__file__).parent / "results"
_LARGEST = 1 << 16
_REFUSED = (ProblemError, RuntimeError, ValueError, TypeError, NotImplementedError)
"""What an operation raises for a sample that is no problem."""


@dataclass(frozen=True)
class Form:
    """In which form each operation is judged."""

    dtype: torch.dtype = torch.float32
    train: bool = False

    @property
    def name(self) -> str:
        """`float32`, `bfloat16, --train`, …."""
        return str(self.dtype).removeprefix("torch.") + (", --train" if self.train else "")

    @property
    def page(self) -> Path:
        """Where its table lies."""
        words = self.name.replace(", --", "_").removeprefix("float32").strip("_")
        return _RESULTS / f"opinfo{'_' if words else ''}{words}.md"


@dataclass(frozen=True)
class Judged:
    """What became of one operation."""

    name: str
    outcome: str
    """`accepted`, `refused`, `error`, or `admission`: it is no problem that can be judged."""
    calls: int
    why: str = ""


def judged(form: Form, every: int = 1, only: Collection[str] = ()) -> Iterator[Judged]:
    """Each `every`-th operation with its first sample that has a tensor of some size."""
    from torch.testing._internal.common_methods_invocations import op_db

    seen: set[str] = set()
    for op in op_db:
        if op.name in seen or not op.supports_dtype(form.dtype, "cpu"):
            continue
        if form.train and not op.supports_autograd:
            continue
        seen.add(op.name)
        if len(seen) % every or (only and op.name not in only):
            continue
        yield _judge(op, form)


def _judge(op: Any, form: Form) -> Judged:
    try:
        sample = _sample(op, form)
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
        if form.train:
            require_trainable(oracle, (source,))
    except _REFUSED as error:
        return Judged(op.name, "admission", 0, _line(error))
    calls = 0
    candidate = _Candidate(op, oracle.eager(source.draw(0)))
    try:
        for item in _rounds(oracle, source, form):
            for trial in _in_order(item):
                calls += 1
                answer = _answer(candidate, trial)
                RightAnswer(Findings(), None, None).require(trial, Answer(answer, None))
    except Rejected as refused:
        where = refused.reason.detail.get("probe", "")
        return Judged(op.name, "refused", calls, f"{where}: {refused.reason.message[:200]}")
    except ProblemError as error:
        return Judged(op.name, "admission", calls, _line(error))
    except Exception as error:  # noqa: BLE001 - an error of the judge is what this looks for
        return Judged(op.name, "error", calls, f"{type(error).__name__}: {_line(error)}")
    return Judged(op.name, "accepted", calls)


def _rounds(oracle: Oracle, source: InputSource, form: Form) -> Iterator[Round]:
    yield from rounds(oracle, (source,), {}, constant=True)
    if form.train:
        yield from training_rounds(oracle, (source,), {}, constant=True)


def _in_order(item: Round) -> Iterator[Trial]:
    for trial in item.trials:
        yield trial
        if trial.then is not None:
            yield trial.then


class _Candidate(torch.nn.Module):
    """The operation, called by somebody else; 16-bit inputs are raised to float32, results rounded."""

    def __init__(self, op: Any, like: Any) -> None:
        """`like`: a result of the operation as it is, for its types."""
        super().__init__()
        self.op = op.op
        self.types = [
            leaf.dtype if isinstance(leaf, torch.Tensor) else None for leaf in tree_leaves(like)
        ]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raised, named = tree_map(_raised, (args, kwargs))
        leaves, form = tree_flatten(self.op(*raised, **named))
        if len(leaves) != len(self.types):
            return tree_unflatten(leaves, form)
        pairs = zip(leaves, self.types, strict=True)
        return tree_unflatten([_rounded(leaf, dtype) for leaf, dtype in pairs], form)


def _raised(value: Any) -> Any:
    halved = isinstance(value, torch.Tensor) and value.dtype in HALVES
    return value.float() if halved else value


def _rounded(value: Any, dtype: torch.dtype | None) -> Any:
    single = isinstance(value, torch.Tensor) and value.dtype == torch.float32
    return value.to(dtype) if single and dtype in HALVES else value


def _answer(candidate: torch.nn.Module, trial: Trial) -> Any:
    args, kwargs = tree_map(_copy, trial.arguments)
    if trial.step is not None:
        return take(candidate, (args, kwargs), trial.step)
    with torch.no_grad():
        return candidate(*args, **kwargs)


def _sample(op: Any, form: Form) -> Arguments | None:
    for sample in op.sample_inputs("cpu", form.dtype, requires_grad=False):
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


def table(rows: list[Judged], seconds: float, command: str, form: Form) -> str:
    """The page."""
    counts = Counter(row.outcome for row in rows)
    message = ", ".join(
        f"{counts[name]} {name}" for name in ("accepted", "refused", "error", "admission")
    )
    candidate = "the same operation" if form.dtype not in HALVES else "it in float32, rounded once"
    lines = [
        f"# PyTorch's OpInfo samples, judged ({form.name})",
        "",
        f"`{command}`, torch {torch.__version__}, {seconds:.0f} s: "
        f"{len(rows)} operations, {message}; {sum(row.calls for row in rows)} calls compared.",
        "",
        f"The first {str(form.dtype).removeprefix('torch.')} sample of each operation as the problem, {candidate} as the",
        f"candidate, in the judge's own rounds of draws and probes{' and its training steps' if form.train else ''}; without the candidate's process.",
        "`admission`: the judge refuses the problem before anybody is judged.",
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
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=(), help="prints, writes no page")
    asked = parser.parse_args()
    form = Form(getattr(torch, asked.dtype), asked.train)
    torch.set_num_threads(1)
    began = time.monotonic()
    rows = []
    for row in judged(form, asked.every, asked.only):
        rows.append(row)
        if row.outcome in ("refused", "error") or asked.only:
            print(row, flush=True)
    if not asked.only:
        command = " ".join(["python -m benchmarks.opinfo", *sys.argv[1:]])
        page = table(rows, time.monotonic() - began, command, form)
        form.page.write_text(page, encoding="utf-8")
    print(Counter(row.outcome for row in rows))


if __name__ == "__main__":
    main()
