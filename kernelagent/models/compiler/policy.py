"""The policy's turns: from the history of its own candidates to the next reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelagent.domain.evaluation import Evaluation
from kernelagent.models.compiler.capturing.capture import (
    Captured,
    PolicyCannot,
    Smaller,
    TookTooLong,
    capture,
)
from kernelagent.models.compiler.capturing.capture_step import Pair, capture_step
from kernelagent.models.compiler.capturing.open_sizes import Places, at_other_sizes, first_axes
from kernelagent.models.compiler.capturing.refusal import AttentionUnknown
from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.constructor import NO_SHAPES, Shapes
from kernelagent.models.compiler.module.fixed_arguments import Fixed
from kernelagent.models.compiler.module.shared_kernels import shared
from kernelagent.models.compiler.module.writing import Writer, Written
from kernelagent.models.compiler.program.calls import Call
from kernelagent.models.compiler.tuning import (
    Attempt,
    Hypothesis,
    launches_decide,
    next_hypothesis,
    raises_alike,
)
from kernelagent.prompts.repeats import normal_form

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
    dynamic: Mapping[str, Sequence[Places]] = field(default_factory=dict)
    """By name, the sizes that were declared to change; where none were, the program tries to leave some open."""
    state: Shapes = field(default_factory=lambda: NO_SHAPES)
    """Sizes of the module's state, by path, that its constructor's arguments decide."""
    fixed: Sequence[Fixed] = ()
    """The constructor's arguments that have to be what they are."""
    target: str = "sm_90"
    """The GPU whose estimates choose between templates and torch's libraries."""
    addresses: object = None
    """Whatever the tensors' memory belongs to; kept as long as they are."""
    train: bool = False
    """Whether the module is to be trained: then its backward is written as well."""
    _written: dict[str, tuple[Choice, Written]] = field(default_factory=dict)
    _calls: dict[tuple[bool, bool, frozenset[tuple[str, bool]]], list[Call]] = field(
        default_factory=dict
    )
    _others: Mapping[str, Smaller | None] | None = None
    """By name, the other sizes at which the programs hold; None before any was written."""
    _fused: bool = True
    """Whether attention that is trained has kernels of ours; otherwise it is products and a softmax."""

    def reply(self, history: Sequence[Past]) -> str | None:
        """The next reply, None when nothing is left to try; raises `PolicyCannot`."""
        if not history:
            first = self.first()
            words = f"{_FIRST} {_BACKWARD}" if self.train else _FIRST
            return self._reply("\n".join([words, *_remarks(first)]), first)
        attempts = self._replayed(history)
        if not attempts:
            return None
        hypothesis = self._new_text(attempts, history)
        if hypothesis is None:
            return None
        return self._reply(hypothesis.words, self._write(hypothesis.choice))

    def nothing_left(self, history: Sequence[Past]) -> str:
        """Why there is no further reply."""
        attempts = self._replayed(history)
        if raises_alike(attempts):
            return _DEFECT
        return _LAUNCHES if launches_decide(attempts) else _EVERYTHING

    def first(self) -> Written:
        """What is written before anything was judged."""
        return self._write(Choice())

    def _replayed(self, history: Sequence[Past]) -> list[Attempt]:
        """The choices that led to the past candidates, found by writing each candidate again and comparing the text."""
        attempts: list[Attempt] = []
        hypothesis: Hypothesis | None = Hypothesis(Choice(), _FIRST)
        for turn, past in enumerate(history, 1):
            if hypothesis is None:
                break
            written = self._write(hypothesis.choice)
            same = past.source.strip() == written.source.strip()
            if past.evaluation is not None and same:
                attempts.append(
                    Attempt(
                        hypothesis.choice,
                        written.configs,
                        written.kinds,
                        past.evaluation,
                        written.alternatives,
                        written.sites,
                        self.train,
                    )
                )
            hypothesis = self._new_text(attempts, history[:turn]) if attempts else hypothesis
        return attempts

    def _new_text(self, attempts: Sequence[Attempt], history: Sequence[Past]) -> Hypothesis | None:
        """The next hypothesis that was not handed in: another choice may write the same kernels."""
        handed_in = {normal_form(past.source) for past in history}
        alike: list[Choice] = []
        while (hypothesis := next_hypothesis(attempts, alike)) is not None:
            if normal_form(self._write(hypothesis.choice).source) not in handed_in:
                return hypothesis
            alike.append(hypothesis.choice)
        return None

    def _write(self, choice: Choice) -> Written:
        key = repr(choice)
        if key not in self._written:
            self._written[key] = (choice, self._new(choice))
        return self._written[key][1]

    def _new(self, choice: Choice) -> Written:
        if self._others is not None:
            return self._at(self._others, choice)
        refused: PolicyCannot | None = None
        for others in self._sizes():
            try:
                written = self._at(others, choice)
            except TookTooLong:
                raise
            except PolicyCannot as error:
                self._calls.clear()
                refused = error
                continue
            self._others = others
            return written
        assert refused is not None
        raise refused

    def _at(self, others: Mapping[str, Smaller | None], choice: Choice) -> Written:
        try:
            return self._written_at(others, choice)
        except AttentionUnknown:
            if not self._fused:
                raise
            self._fused = False
            self._calls.clear()
            return self._written_at(others, choice)

    def _written_at(self, others: Mapping[str, Smaller | None], choice: Choice) -> Written:
        key = choice.persistent, choice.recompute, frozenset(choice.rewrites.items())
        if key not in self._calls:
            self._calls[key] = [
                Call(name, self._captured(given, others[name], choice))
                for name, given in self.input_sets.items()
            ]
        calls = self._calls[key]
        written = self._as_chosen(self._for_all_alike(choice, calls), calls)
        text, instead = shared(written.source)
        known = written.configs
        gone = {n for n, kept in instead.items() if n in known and known[n] == known[kept]}
        return replace(
            written,
            source=text,
            configs={n: c for n, c in known.items() if n not in gone},
            kinds={n: k for n, k in written.kinds.items() if n not in gone},
            alternatives={n: a for n, a in written.alternatives.items() if n not in gone},
        )

    def _for_all_alike(self, choice: Choice, calls: Sequence[Call]) -> Choice:
        """What is chosen for a kernel holds for those that were the same before anything was chosen."""
        if not choice.configs:
            return choice
        first = self._as_chosen(replace(choice, configs={}), calls)
        alike = {
            name: choice.configs[kept]
            for name, kept in shared(first.source)[1].items()
            if kept in choice.configs and first.configs.get(name) == first.configs[kept]
        }
        return replace(choice, configs={**alike, **choice.configs})

    def _as_chosen(self, choice: Choice, calls: Sequence[Call]) -> Written:
        writer = Writer(
            self.module,
            self.constructor,
            choice,
            self.state,
            self.target,
            fixed=self.fixed,
            train=self.train,
        )
        return writer.write(calls)

    def _captured(
        self,
        given: tuple[Sequence[Any], Mapping[str, Any]],
        smaller: Smaller | None,
        choice: Choice,
    ) -> Captured | Mapping[bool, Pair]:
        if self.train:
            return capture_step(
                self.module,
                *given,
                persistent=choice.persistent,
                recompute=choice.recompute,
                fused=self._fused,
                smaller=smaller,
                target=self.target,
            )
        return capture(
            self.module,
            *given,
            persistent=choice.persistent,
            smaller=smaller,
            target=self.target,
            moved=choice.moved,
            kept=choice.kept,
        )

    def _sizes(self) -> Iterator[Mapping[str, Smaller | None]]:
        """The sizes that are left open, to be tried in turn: what was declared, or as many as can be."""
        if any(self.dynamic.values()):
            yield {
                name: at_other_sizes(self._given(name), self.dynamic.get(name, ()))
                for name in self.input_sets
            }
            return
        every = {
            name: [] if name in self.smaller else first_axes(self.module, *given)
            for name, given in self.input_sets.items()
        }
        for most in range(max(map(len, every.values())), 0, -1):
            yield {
                name: at_other_sizes(self._given(name), axes[:most])
                if axes
                else self.smaller.get(name)
                for name, axes in every.items()
            }
        yield {name: self.smaller.get(name) for name in self.input_sets}

    def _given(self, name: str) -> Smaller:
        return self.smaller.get(name) or Smaller(self.module, *self.input_sets[name])

    def _reply(self, words: str, written: Written) -> str:
        return f"{words}\n\n```python\n{written.source}```\n"


def _remarks(written: Written) -> list[str]:
    """What the templates do, a line each."""
    return [f"- {remark[:1].upper()}{remark[1:]}." for remark in dict.fromkeys(written.remarks)]


_FIRST = (
    "The compiler's own fusion of the module, written out as plain Triton: each kernel reads its "
    "inputs once where a row fits a program."
)
_BACKWARD = (
    "Its backward likewise, in kernels of its own: the forward keeps what it reads, and what is cheap "
    "it computes again."
)
_EVERYTHING = "every change it knows for these kernels is tried"
_DEFECT = (
    "two versions raised the same error, which is a defect of the built-in policy and not of your module: report it with "
    "the run's folder, or let another model write (--model)"
)
_LAUNCHES = (
    "launches decide this estimate, and other blocks or warps change nothing in it; where a GPU times, "
    "they are tried"
)
