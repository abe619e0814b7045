"""The policy's turns: from the history of its own candidates to the next reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import Evaluation
from kernelagent.models.compiler.capture import Smaller, capture
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.constructor import NO_SHAPES, Shapes
from kernelagent.models.compiler.tuning import Attempt, Hypothesis, next_hypothesis
from kernelagent.models.compiler.writing import Call, Writer, Written

InputSets = Mapping[str, tuple[Sequence[Any], Mapping[str, Any]]]


@dataclass(frozen=True)
class Past:
    """One of the policy's earlier turns."""

    source: str
    evaluation: Evaluation | None


@dataclass
class Policy:
    """A function of the history: asked twice with the same one, it answers the same."""

    module: torch.nn.Module
    constructor: str
    input_sets: InputSets
    smaller: Mapping[str, Smaller] = field(default_factory=dict)
    """By name, what can be executed here where the given sizes are too large."""
    state: Shapes = field(default_factory=lambda: NO_SHAPES)
    """Sizes of the module's state, by path, that its constructor's arguments decide."""
    target: str = "sm_90"
    """The GPU whose estimates choose between templates and torch's libraries."""
    addresses: object = None
    """Whatever the tensors' memory belongs to; kept as long as they are."""
    _written: dict[str, tuple[Choice, Written]] = field(default_factory=dict)
    _calls: dict[bool, list[Call]] = field(default_factory=dict)

    def reply(self, history: Sequence[Past]) -> str | None:
        """The next reply, None when nothing is left to try; raises `PolicyCannot`."""
        if not history:
            first = self.first()
            return self._reply("\n".join([_FIRST, *_remarks(first)]), first)
        attempts = self._replayed(history)
        if not attempts:
            return None
        hypothesis = next_hypothesis(attempts)
        if hypothesis is None:
            return None
        return self._reply(hypothesis.words, self._write(hypothesis.choice))

    def first(self) -> Written:
        """What is written before anything was judged."""
        return self._write(Choice())

    def _replayed(self, history: Sequence[Past]) -> list[Attempt]:
        """The choices behind the candidates of the past, found again by making them again."""
        attempts: list[Attempt] = []
        hypothesis: Hypothesis | None = Hypothesis(Choice(), _FIRST)
        for past in history:
            if hypothesis is None:
                break
            written = self._write(hypothesis.choice)
            same = Candidate(past.source).source.strip() == written.source.strip()
            if past.evaluation is not None and same:
                attempts.append(
                    Attempt(
                        hypothesis.choice,
                        written.configs,
                        written.kinds,
                        past.evaluation,
                        written.alternatives,
                        written.sites,
                    )
                )
            hypothesis = next_hypothesis(attempts) if attempts else hypothesis
        return attempts

    def _write(self, choice: Choice) -> Written:
        if choice.persistent not in self._calls:
            self._calls[choice.persistent] = [
                self._call(name, persistent=choice.persistent) for name in self.input_sets
            ]
        key = repr(choice)
        if key not in self._written:
            writer = Writer(self.module, self.constructor, choice, self.state, self.target)
            self._written[key] = (choice, writer.write(self._calls[choice.persistent]))
        return self._written[key][1]

    def _call(self, name: str, *, persistent: bool) -> Call:
        args, kwargs = self.input_sets[name]
        smaller = self.smaller.get(name)
        captured = capture(self.module, args, kwargs, persistent=persistent, smaller=smaller)
        return Call(name, captured)

    def _reply(self, words: str, written: Written) -> str:
        return f"{words}\n\n```python\n{written.source}```\n"


def _remarks(written: Written) -> list[str]:
    """What the templates do, a line each."""
    return [f"- {remark[:1].upper()}{remark[1:]}." for remark in dict.fromkeys(written.remarks)]


_FIRST = (
    "The compiler's own fusion of the module, written out as plain Triton: each kernel reads its "
    "inputs once where a row fits a program."
)
