"""Faults planted in PyTorch's own operations and modules: does the judge see each?

    python -m benchmarks.opinfo_faults [--modules] [--train] [--dtype bfloat16] [--every N] [--only NAME...]

The opposite of `benchmarks.opinfo`, on the same problems: each fault is put into the candidate of every
operation or module. A fault must be refused, or be without effect: then its answers had the same bits as the
right candidate's in every call. What is accepted all the same is a survivor, and named.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from benchmarks.opinfo import answer_to, calls_of, opened
from benchmarks.opinfo_subjects import REFUSED, Form, Subject, subjects
from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.same_values import same_values
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial
from kernelagent.tools.judge.verify.compare.right_answer import RightAnswer
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.rejection import Rejected

_RESULTS = Path(__file__).parent / "results"
Change = Callable[[torch.Tensor], torch.Tensor]


def _factor(out: torch.Tensor) -> torch.Tensor:
    return out * 1.02


def _last_element(out: torch.Tensor) -> torch.Tensor:
    changed = out.clone().contiguous()
    if changed.numel() > 1:
        changed.view(-1)[-1] = changed.view(-1)[0]
    return changed


def _last_column(out: torch.Tensor) -> torch.Tensor:
    changed = out.clone()
    if changed.dim() and changed.shape[-1] > 1:
        changed[..., -1] = 0
    return changed


def _clamped(out: torch.Tensor) -> torch.Tensor:
    return out.clamp(-6, 6)


def _half_precision(out: torch.Tensor) -> torch.Tensor:
    return out.to(torch.float8_e4m3fn if out.dtype == torch.bfloat16 else torch.float16).to(
        out.dtype
    )


OF_RESULTS: Mapping[str, Change] = {
    "2 % too large": _factor,
    "the last element is the first": _last_element,
    "the last column is zero": _last_column,
    "clamped to 6": _clamped,
    "rounded to half the width": _half_precision,
}
FIRST_CALL, GIVEN_WEIGHTS, GRADIENT, NO_GRADIENT = (
    "the answer to the first call",
    "the weights it was built with",
    "the first input's gradient is 5 % too large",
    "the last input's gradient is zero",
)


@dataclass
class Tally:
    """What became of one fault in all of them."""

    refused: Counter[str] = field(default_factory=Counter)
    """By the rejection's code."""
    without_effect: int = 0
    survivors: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def faults_of(form: Form) -> tuple[str, ...]:
    """Names of the faults that are put into candidates of this form."""
    others = [FIRST_CALL]
    others += [GIVEN_WEIGHTS] if form.modules else []
    others += [GRADIENT, NO_GRADIENT] if form.train else []
    return (*OF_RESULTS, *others)


class _Faulty(torch.nn.Module):
    """Calls the right candidate and spoils what it is given or answers."""

    def __init__(self, right: torch.nn.Module, fault: str) -> None:
        super().__init__()
        self.right, self.fault = right, fault
        self.first: Any = None

    def spoilt(self, args: Any, kwargs: Any) -> Any:
        if self.fault in (GRADIENT, NO_GRADIENT):
            args, kwargs = self._other_gradient((args, kwargs))
        result = self.right(*args, **kwargs)
        if self.fault == FIRST_CALL:
            if self.first is None:
                self.first = tree_map(_detached, result)
            return tree_map(_detached, self.first)
        change = OF_RESULTS.get(self.fault)
        if change is None:
            return result
        return tree_map(lambda v: change(v) if _is_floating(v) else v, result)

    def _other_gradient(self, arguments: Any) -> Any:
        floating = [v for v in tree_leaves(arguments) if _is_floating(v) and v.requires_grad]
        if not floating:
            return arguments
        chosen = floating[0] if self.fault == GRADIENT else floating[-1]
        kept = 1.05 if self.fault == GRADIENT else 0.0
        spoilt = chosen.detach() + kept * (chosen - chosen.detach())
        return tree_map(lambda v: spoilt if v is chosen else v, arguments)


def _faulty(right: torch.nn.Module, fault: str) -> torch.nn.Module:
    """The right candidate itself, with its names of weights, whose forward is spoilt."""
    # Its own class's forward, or what was put on the instance.
    forward = right.forward
    spoiling = _Faulty(_Plain(forward), fault)
    right.forward = lambda *args, **kwargs: spoiling.spoilt(args, kwargs)  # type: ignore[method-assign]
    return right


class _Plain(torch.nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self._call = call

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _detached(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def judged(form: Form, every: int, only: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """For each that can be judged: by fault the rejection's code, `accepted`, `without effect` or an error."""
    for number, subject in enumerate(subjects(form), 1):
        if not isinstance(subject, Subject) or subject.sample is None:
            continue
        if number % every or (only and subject.name not in only):
            continue
        try:
            trials = _trials(subject, form)
        except (ProblemError, *REFUSED):
            continue
        yield subject.name, {fault: _one(subject, trials, fault) for fault in faults_of(form)}


def _trials(subject: Subject, form: Form) -> tuple[Any, list[tuple[Round, Trial]]]:
    oracle, source = opened(subject, form)
    return oracle.eager(source.draw(0)), list(calls_of(oracle, source, form))


def _one(subject: Subject, made: tuple[Any, list[tuple[Round, Trial]]], fault: str) -> str:
    like, trials = made
    right = subject.candidate(like)
    wrong = _faulty(subject.candidate(like), fault)
    if fault == GIVEN_WEIGHTS:
        wrong.load_state_dict(trials[0][0].weights)
    effect = False
    for item, trial in trials:
        try:
            answer = answer_to(wrong.eval(), item, trial, load=fault != GIVEN_WEIGHTS)
            RightAnswer(Findings(), None, None).require(trial, Answer(answer, None))
        except Rejected as refused:
            return refused.reason.code
        except Exception as error:  # noqa: BLE001 - of a spoilt candidate, which a judging would call a crash
            return f"raises {type(error).__name__}"
        effect = effect or not same_values(answer, answer_to(right.eval(), item, trial))
    return "accepted" if effect else "without effect"


def table(rows: Mapping[str, Mapping[str, str]], seconds: float, command: str, form: Form) -> str:
    """The page."""
    kind = "modules" if form.modules else "operations"
    lines = [
        f"# Faults planted in PyTorch's {kind} ({form.name})",
        "",
        f"`{command}`, torch {torch.__version__}, {seconds:.0f} s: {len(rows)} {kind} that can be judged.",
        "",
        "Refused: by any rejection, a gradient that is missing and an exception of the spoilt candidate included.",
        "Without effect: every answer had the same bits as the right candidate's.",
        "",
        "| fault | refused | without effect | accepted | these |",
        "|---|--:|--:|--:|---|",
    ]
    for fault in faults_of(form):
        outcomes = {name: row[fault] for name, row in rows.items()}
        accepted = [name for name, outcome in outcomes.items() if outcome == "accepted"]
        idle = sum(outcome == "without effect" for outcome in outcomes.values())
        refused = len(outcomes) - len(accepted) - idle
        lines.append(f"| {fault} | {refused} | {idle} | {len(accepted)} | {', '.join(accepted)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--modules", action="store_true", help="modules of torch.nn, not operations"
    )
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="prints, writes no page")
    asked = parser.parse_args()
    form = Form(getattr(torch, asked.dtype), asked.train, asked.modules)
    torch.set_num_threads(1)
    began = time.monotonic()
    rows: dict[str, dict[str, str]] = {}
    for name, row in judged(form, asked.every, asked.only):
        rows[name] = row
        if asked.only:
            print(name, row, flush=True)
    page = table(
        rows,
        time.monotonic() - began,
        " ".join(["python -m benchmarks.opinfo_faults", *sys.argv[1:]]),
        form,
    )
    if not asked.only:
        words = form.name.replace(", --", "_").removeprefix("float32").strip("_")
        (_RESULTS / f"opinfo_faults{'_' if words else ''}{words}.md").write_text(
            page, encoding="utf-8"
        )
    print(page)


if __name__ == "__main__":
    main()
