"""Verdicts kept on disk: each program of the language is judged once, however often it is written.

A verdict holds for the text of one problem and of one candidate: edit either, and it is judged again.
The judge itself may change too; `benchmarks.small_training --recheck` judges a sample again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, Stage
from kernelagent.domain.problem import ProblemFacts
from kernelagent.domain.serialization import from_json, to_json
from kernelagent.training.small.language import TASKS, problem_file


class RealJudge(Protocol):
    """As `environment.Judge`: what a missing verdict is asked of."""

    facts: ProblemFacts
    device: DeviceFacts

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation: ...
    def close(self) -> None: ...


Opener = Callable[[str], RealJudge]
"""A judge for a task's name."""


@dataclass(frozen=True)
class _Task:
    """A line of the file: a problem as its judge described it."""

    task: str
    text_sha256: str
    facts: ProblemFacts
    device: DeviceFacts


@dataclass(frozen=True)
class _Verdict:
    """A line of the file: one program's verdict."""

    task: str
    candidate: str
    evaluation: Evaluation


@dataclass(frozen=True)
class _Line:
    """Exactly one of the two."""

    problem: _Task | None = None
    verdict: _Verdict | None = None


@dataclass
class Verdicts:
    """All that were judged, by task and by the candidate's hash; JSON lines at `path`.

    Raises `msgspec.ValidationError` when the file is of another version of the records.
    """

    path: Path
    open_judge: Opener
    judged: int = 0
    """Programs this process judged itself."""
    _tasks: dict[str, _Task] = field(default_factory=dict)
    _known: dict[tuple[str, str], Evaluation] = field(default_factory=dict)
    _open: dict[str, RealJudge] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.path.exists():
            return
        lines = [from_json(text, _Line) for text in self.path.read_bytes().splitlines()]
        described = [line.problem for line in lines if line.problem is not None]
        self._tasks = {p.task: p for p in described if p.text_sha256 == _text_sha256(p.task)}
        verdicts = [line.verdict for line in lines if line.verdict is not None]
        self._known = {
            (v.task, v.candidate): v.evaluation for v in verdicts if v.task in self._tasks
        }

    def __len__(self) -> int:
        return len(self._known)

    def judge(self, task: str) -> JudgedOnce:
        """A judge of the task that asks the real one only for what was not asked before."""
        described = self._tasks.get(task)
        if described is None:
            real = self._real(task)
            described = _Task(task, _text_sha256(task), real.facts, real.device)
            self._tasks[task] = described
        return JudgedOnce(self, task, described.facts, described.device)

    def of(self, task: str, candidate: Candidate) -> Evaluation:
        """The verdict, judged now if it is not known. One of a machine at fault is not kept."""
        key = (task, candidate.sha256)
        if key not in self._known:
            result = self.fresh(task, candidate)
            self.judged += 1
            if result.verdict == "error":
                return result
            self._known[key] = result
        return self._known[key]

    def fresh(self, task: str, candidate: Candidate) -> Evaluation:
        """The real judge's verdict, whatever is known; without how long its stages took."""
        return replace(self._real(task).evaluate(candidate, lambda _: None), stages=())

    def save(self) -> None:
        """Writes the file, sorted: equal verdicts give an equal file."""
        lines = [_Line(problem=self._tasks[task]) for task in TASKS if task in self._tasks]
        lines += [
            _Line(verdict=_Verdict(task, sha, result))
            for (task, sha), result in sorted(self._known.items(), key=lambda item: item[0])
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"".join(to_json(line) + b"\n" for line in lines))

    def close(self) -> None:
        """Ends the real judges that were opened."""
        for judge in self._open.values():
            judge.close()
        self._open.clear()

    def _real(self, task: str) -> RealJudge:
        if task not in self._open:
            self._open[task] = self.open_judge(task)
        return self._open[task]


@dataclass(frozen=True)
class JudgedOnce:
    """One task's judge, as `environment.Judges` wants it."""

    verdicts: Verdicts
    task: str
    facts: ProblemFacts
    device: DeviceFacts

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        return self.verdicts.of(self.task, candidate)

    def close(self) -> None:
        """Nothing: the verdicts outlive an episode."""


def _text_sha256(task: str) -> str:
    return hashlib.sha256(problem_file(task).read_bytes()).hexdigest()
