"""What a judging has seen so far of one candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelagent.domain.evaluation import Case, Correctness, Disclosure
from kernelagent.tools.judge.problem.trials.plain_numbers import Number, numbers_in
from kernelagent.tools.judge.problem.trials.probes import named_tensors
from kernelagent.tools.judge.problem.wrong_steps.shown import Shown
from kernelagent.tools.judge.verify.beyond.compiled_code import CompiledCode
from kernelagent.tools.judge.verify.beyond.reference_choices import ReferenceChoices
from kernelagent.tools.judge.verify.beyond.untried_choices import UntriedChoices
from kernelagent.tools.judge.verify.diagnosis.failure_context import Memory
from kernelagent.tools.judge.verify.diagnosis.gradients import verified_gradients
from kernelagent.tools.judge.verify.kept_calls import KeptCalls
from kernelagent.tools.judge.verify.process.answers import OnTheHost
from kernelagent.tools.judge.verify.same import same_bits_of
from kernelagent.tools.judge.verify.specialised import Specialised


@dataclass
class Findings:
    """What has been seen so far; grows call by call."""

    cases: list[Case] = field(default_factory=list)
    disclosures: dict[str, Disclosure] = field(default_factory=dict)
    calls: int = 0
    configuration: int = 0
    """Index of the autotuning configuration that the next call uses."""
    launches: list[dict[str, Any]] = field(default_factory=list)
    """Log rows of the first call of each input set: what one forward launches."""
    kernels: dict[str, set[frozenset[str]]] = field(default_factory=dict)
    """By input set: the kernels that one forward launched, for each kind of call there was."""
    memory: Memory = field(default_factory=Memory)
    """Earlier outputs and weights, to recognise a wrong answer that repeats one of them."""
    hidden: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    """By input set of a hidden size that was right: the shapes of its tensors."""
    order_matters: bool = False
    """Whether a kernel uses what an atomic returns, so that its programs' order may show."""
    slow_in_turns: bool = False
    """Whether a call takes long where programs take turns."""
    undefined_lanes: bool = False
    """Whether a masked load without `other` left lanes undefined."""
    binds_state: bool = False
    """Whether a call has bound another tensor as a parameter or buffer."""
    own_state: dict[str, torch.Tensor] = field(default_factory=dict)
    """What the call before left in the candidate's own state, where the next one goes on from there."""
    left: set[str] = field(default_factory=set)
    """Attributes and unsaved buffers in which calls of the candidate have left what the reference leaves there."""
    unwritten: set[tuple[str, int]] = field(default_factory=set)
    """Kernels, and lines in them, that loaded memory which nobody had written."""
    specialised: Specialised = field(default_factory=Specialised)
    choices: UntriedChoices = field(default_factory=UntriedChoices)
    reference_choices: ReferenceChoices = field(default_factory=ReferenceChoices)
    shown: Shown = field(default_factory=lambda: Shown.of(None, most_seconds=0.0))
    """Of the reference, by the calls."""
    kept_calls: KeptCalls = field(default_factory=KeptCalls)
    """Of the judged ones, to be made again."""
    compiled_code: CompiledCode = field(default_factory=CompiledCode)
    called: set[str] = field(default_factory=set)
    """Input sets that have been called with."""
    reads: dict[str, None] = field(default_factory=dict)
    """How values were taken to the host in calls that were looked at, in their order."""
    changed: dict[str, None] = field(default_factory=dict)
    """What the candidate keeps and such a call changed."""
    copying_calls: int = 0
    """Calls in which tensors were copied between the host and the GPU."""
    copied: dict[str, None] = field(default_factory=dict)
    """By which of torch's functions."""
    host_work: dict[str, OnTheHost] = field(default_factory=dict)
    """By input set: the least of each that a forward did in Python, of the calls that were looked at."""
    untried: dict[str, None] = field(default_factory=dict)
    """Calls beyond the verdict's own for which there was no time, in their order."""
    kept_buffers: tuple[str, ...] = ()
    """Those that have had one value in all calls so far."""
    constant: dict[tuple[str, str], torch.Tensor | None] = field(default_factory=dict)
    """By input set and place: the values that every call had so far; None: they differed."""

    numbers: dict[tuple[str, str], Number | None] = field(default_factory=dict)
    """The same of plain numbers."""

    def note_values(self, input_set: str, arguments: Any) -> None:
        """Remember which inputs have had more than one value."""
        for name, number in numbers_in(arguments).items():
            if self.numbers.setdefault((input_set, name), number) != number:
                self.numbers[input_set, name] = None
        for name, tensor in named_tensors(arguments).items():
            known = self.constant.setdefault((input_set, name), tensor)
            if known is not None and not same_bits_of(known, tensor):
                self.constant[input_set, name] = None

    def keep_buffers(self, names: Sequence[str]) -> None:
        """Tell that no call has had other values in these, or nothing where there are none."""
        self.kept_buffers = tuple(names)
        self.disclosures.pop("buffers_kept", None)
        if names:
            message = (
                f"the judge put no other values into these buffers than the constructor does, so how a call answers "
                f"where a checkpoint has left others is not known: {', '.join(names)}"
            )
            self.disclose("buffers_kept", message)

    def disclose(self, code: str, message: str) -> None:
        self.disclosures.setdefault(code, Disclosure(code, message))

    def note_untried(self, what: str) -> None:
        """Tell that this was not tried for lack of time, beside all that was not."""
        self.untried[what.replace("_", " ")] = None
        message = (
            f"for lack of time these were not tried, so how they are answered is not known: "
            f"{', '.join(self.untried)}; a run with a larger --judging-seconds or smaller inputs has time for more"
        )
        self.disclosures["beyond_not_tried"] = Disclosure("beyond_not_tried", message)

    def leave_out(self, since: int) -> None:
        """Forget cases from this one on: a call that is judged by another one."""
        del self.cases[since:]

    @property
    def correctness(self) -> Correctness | None:
        if not self.cases:
            return None
        worst = max(self.cases, key=lambda c: c.rms_error / c.rms_budget if c.rms_budget else 0.0)
        return Correctness(
            self.calls,
            tuple(self.cases),
            worst.rms_error,
            worst.rms_budget,
            verified_gradients(case.output for case in self.cases),
        )
