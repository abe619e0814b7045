"""PyTorch's own samples as problems, the same operation or module as the candidate, under `--policy any`.

    python -m benchmarks.opinfo [--modules] [--train] [--dtype bfloat16] [--every N] [--only NAME...]

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
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

from benchmarks.opinfo_subjects import REFUSED, Form, Subject, line_of, subjects
from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.torch_dtypes import HALVES
from kernelagent.tools.calls.training_step import take
from kernelagent.tools.judge.problem.load import Arguments, LoadedProblem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.steps.training import require_trainable, training_rounds
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial
from kernelagent.tools.judge.problem.trials.trials import rounds
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.right_answer import RightAnswer
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.rejection import Rejected

_RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Judged:
    """What became of one operation or module."""

    name: str
    outcome: str
    """`accepted`, `refused`, `error`, or `admission`: it is no problem that can be judged."""
    calls: int
    why: str = ""


def judged(form: Form, every: int = 1, only: Collection[str] = ()) -> Iterator[Judged]:
    """Each `every`-th with its first sample that has a tensor of some size."""
    for number, subject in enumerate(subjects(form), 1):
        name = subject.name if isinstance(subject, Subject) else subject[0]
        if number % every or (only and name not in only):
            continue
        if isinstance(subject, Subject):
            yield _judge(subject, form)
        else:
            yield Judged(name, "admission", 0, subject[1])


def _judge(subject: Subject, form: Form) -> Judged:
    name = subject.name
    try:
        oracle, source = opened(subject, form)
        candidate = subject.candidate(oracle.eager(source.draw(0)))
    except (ProblemError, *REFUSED) as error:
        return Judged(name, "admission", 0, line_of(error))
    calls = 0
    try:
        for item, trial in calls_of(oracle, source, form):
            calls += 1
            answer = answer_to(candidate.eval(), item, trial)
            RightAnswer(Findings(), None, None).require(trial, Answer(answer, None))
    except Rejected as refused:
        where = refused.reason.detail.get("probe", "")
        return Judged(name, "refused", calls, f"{where}: {refused.reason.message[:200]}")
    except ProblemError as error:
        return Judged(name, "admission", calls, line_of(error))
    except Exception as error:  # noqa: BLE001 - an error of the judge is what this looks for
        return Judged(name, "error", calls, f"{type(error).__name__}: {line_of(error)}")
    return Judged(name, "accepted", calls)


def opened(subject: Subject, form: Form) -> tuple[Oracle, InputSource]:
    """The problem of a subject; raises `ProblemError` or what torch raises where it is none."""
    if subject.sample is None:
        raise ProblemError("no sample with a floating tensor of moderate size")
    oracle, source = _problem(subject, subject.sample)
    oracle.expect(source.draw(0))
    if not _deterministic(oracle, source):
        raise ProblemError("the reference draws at random or is not deterministic")
    if form.train:
        require_trainable(oracle, (source,))
    return oracle, source


def calls_of(oracle: Oracle, source: InputSource, form: Form) -> Iterator[tuple[Round, Trial]]:
    """Every call of a judging, in order, with its round."""
    for item in rounds(oracle, (source,), {}):
        yield from _in_order(item)
    if form.train:
        for item in training_rounds(oracle, (source,), {}):
            yield from _in_order(item)


def _in_order(item: Round) -> Iterator[tuple[Round, Trial]]:
    for trial in item.trials:
        yield item, trial
        if trial.then is not None:
            yield item, trial.then


def answer_to(candidate: torch.nn.Module, item: Round, trial: Trial, *, load: bool = True) -> Any:
    """What a candidate returns; `load`: with the round's weights."""
    args, kwargs = tree_map(_copy, trial.arguments)
    if load:
        candidate.load_state_dict(item.weights)
    if trial.step is not None:
        return take(candidate, (args, kwargs), trial.step)
    with torch.no_grad():
        return candidate(*args, **kwargs)


def _problem(subject: Subject, sample: Arguments) -> tuple[Oracle, InputSource]:
    problem = LoadedProblem(
        name=subject.name,
        source="",
        entry_point="Model",
        constructor="init",
        build=subject.build,
        init_args=lambda: ((), {}),
        input_sets=lambda: {"sample": sample},
        check=None,
    )

    def draw(_: int) -> Arguments:
        args, kwargs = tree_map(_copy, sample)
        return args, kwargs

    return Oracle(problem, "cpu", nullcontext), InputSource("sample", sample, draw, constant=True)


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


def _page(form: Form) -> Path:
    words = form.name.replace(", --", "_").removeprefix("float32").strip("_")
    return _RESULTS / f"opinfo{'_' if words else ''}{words}.md"


def table(rows: list[Judged], seconds: float, command: str, form: Form) -> str:
    """The page."""
    counts = Counter(row.outcome for row in rows)
    message = ", ".join(
        f"{counts[name]} {name}" for name in ("accepted", "refused", "error", "admission")
    )
    kind = "module" if form.modules else "operation"
    candidate = f"the same {kind}" if form.dtype not in HALVES else "it in float32, rounded once"
    lines = [
        f"# PyTorch's {'ModuleInfo' if form.modules else 'OpInfo'} samples, judged ({form.name})",
        "",
        f"`{command}`, torch {torch.__version__}, {seconds:.0f} s: "
        f"{len(rows)} {kind}s, {message}; {sum(row.calls for row in rows)} calls compared.",
        "",
        f"The first {str(form.dtype).removeprefix('torch.')} sample of each {kind} as the problem, {candidate} as the",
        f"candidate, in the judge's own rounds of draws and probes{' and its training steps' if form.train else ''}; without the candidate's process.",
        "`admission`: the judge refuses the problem before anybody is judged.",
        "",
        f"| {kind} | outcome | why |",
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
    parser.add_argument(
        "--modules", action="store_true", help="modules of torch.nn, not operations"
    )
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=(), help="prints, writes no page")
    asked = parser.parse_args()
    form = Form(getattr(torch, asked.dtype), asked.train, asked.modules)
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
        _page(form).write_text(page, encoding="utf-8")
    print(Counter(row.outcome for row in rows))


if __name__ == "__main__":
    main()
