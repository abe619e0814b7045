"""The judging of one candidate: call after call compared with the oracle, every answer and side effect.

Runs in the judge; the candidate's process is reached through `CandidateProcess` only.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelagent.domain.evaluation import Case, Correctness, Disclosure
from kernelagent.domain.serialization import to_data
from kernelagent.tools.judge.problem.oracle import Oracle, same_bits
from kernelagent.tools.judge.problem.probes import named_tensors
from kernelagent.tools.judge.problem.trials import Round, Trial
from kernelagent.tools.judge.verify import compare
from kernelagent.tools.judge.verify.candidate_process import Answer, CandidateProcess, Kept
from kernelagent.tools.judge.verify.compare import Comparison
from kernelagent.tools.judge.verify.failure_context import Memory, refusal_of, words_of
from kernelagent.tools.judge.verify.gradients import (
    as_watched,
    require_fresh_gradients,
    require_gradients,
    verified_gradients,
)
from kernelagent.tools.judge.verify.rejection import Rejected, compiled_by_torch
from kernelagent.tools.judge.verify.tolerance import UserTolerance
from kernelagent.tools.loading import CAME_IN, EXCHANGES, Loading
from kernelagent.tools.memory_sharing import Sharing
from kernelagent.tools.result_form import difference
from kernelagent.tools.surroundings import USUAL, Deck, Fresh, Surroundings
from kernelagent.tools.training_step import FORWARD

_HELD_BYTES = 128 << 20
"""Calls of a round that are looked at again at its end; half of what the runner keeps."""


_OF_THE_PROCESS = frozenset(
    {"crash", "timeout", "unverifiable", "out_of_memory", "forbidden_access"}
)
"""Failures after which there is no process to ask again, or that surroundings do not explain."""
_WRONG = frozenset({"insensitive", "stale_output", "wrong_output", "nonfinite"})
"""Codes of an answer that may be one with earlier weights."""
_SPARE = 4
_SPARE_BYTES = 1 << 16
"""A result in a larger buffer is told from four times its size and this many bytes on."""


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
    candidate_s: float = 0.0
    """Time the candidate's process needed for its answers."""
    memory: Memory = field(default_factory=Memory)
    """Earlier outputs and weights, to recognise a wrong answer that repeats one of them."""
    order_matters: bool = False
    """Whether a kernel uses what an atomic returns, so that its programs' order may show."""
    undefined_lanes: bool = False
    """Whether a masked load without `other` left lanes undefined."""
    called: set[str] = field(default_factory=set)
    """Input sets that have been called with."""
    reads: dict[str, None] = field(default_factory=dict)
    """How values were taken to the host in calls that were looked at, in their order."""
    changed: dict[str, None] = field(default_factory=dict)
    """What the candidate keeps and such a call changed."""
    constant: dict[tuple[str, str], torch.Tensor | None] = field(default_factory=dict)
    """By input set and place: the values that every call had so far; None: they differed."""

    def note_values(self, input_set: str, arguments: Any) -> None:
        """Remember which inputs have had more than one value."""
        for name, tensor in named_tensors(arguments).items():
            known = self.constant.setdefault((input_set, name), tensor)
            if known is not None and not _same_bits(known, tensor):
                self.constant[input_set, name] = None

    def disclose(self, code: str, message: str) -> None:
        self.disclosures.setdefault(code, Disclosure(code, message))

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


@dataclass
class _Held:
    """The calls of a round whose outputs are read again at its end."""

    earlier: list[tuple[int, Any]] = field(default_factory=list)
    size: int = 0

    @property
    def last(self) -> tuple[int, Any] | None:
        return self.earlier[-1] if self.earlier else None

    def add(self, call: int, arguments: Any, output: Any) -> None:
        """Keep a call; of large ones only the last, as the runner does, which keeps its inputs twice."""
        self.size += _bytes_of(output) + 2 * _bytes_of(arguments)
        if self.size > _HELD_BYTES:
            self.earlier.clear()
            self.size = 0
        self.earlier.append((call, output))


@dataclass(frozen=True)
class Verifier:
    """The checks of one call, in their order."""

    process: CandidateProcess
    findings: Findings
    device: str
    needs_kernel: bool
    tolerance: UserTolerance | None
    check: Callable[..., bool] | None
    oracle: Oracle
    """The reference, asked where a candidate fails in some surroundings alone or keeps a result."""
    deck: Deck = field(default_factory=Deck)

    def run(self, one: Round) -> None:
        """All trials under one set of weights; raises `Rejected` at the first failure."""
        how = self.deck.loading()
        if how == "bound" and one.trials:
            # What is bound next may lie where this one's weights lie.
            self.process.call_another(one.trials[0].arguments, fresh=True)
        self.process.use_weights(one.weights, how)
        self.findings.memory.keep_weights(one.weights)
        held = _Held()
        with _told_how(how):
            self._all_of(one, held)
        for call, output in held.earlier:
            self._still_the_same(call, output)
        if len(held.earlier) > 1:
            self._nothing_lives_on(self.process.forget(), one.trials[0])
            self._still_the_same(*held.earlier[-1])
        if one.repeats:
            self._repeat(one.trials[0], one.weights)
        if one.repeats and self.findings.order_matters and self.device == "virtual":
            self._in_turns(one.trials[0], one.weights)
        if not any(_changes_state(trial, one.weights) for trial in one.trials):
            self._weights_untouched(one.weights, how)
        at = [trial.input_set for trial in one.trials if trial.hidden]
        if at:
            self.findings.disclose("hidden_sizes", f"also verified on {', '.join(at)}")
        if one.refused:
            where = ", ".join(one.refused)
            self.findings.disclose(
                "sizes_refused",
                f"the original refuses {where}: nothing is known of the candidate there",
            )
        for dropped in one.dropped:
            self.findings.disclose(
                f"probe_dropped_{dropped.name}", f"probe {dropped.name} left out: {dropped.reason}"
            )
        if one.kept_buffers:
            kept = ", ".join(one.kept_buffers)
            self.findings.disclose("buffers_kept", f"these buffers kept their values: {kept}")

    def _all_of(self, one: Round, held: _Held) -> None:
        touched = False
        for number, trial in enumerate(one.trials):
            # A first call may fill caches; the last two of a round are looked at.
            memory: Fresh = "filled"
            if number + 2 >= len(one.trials) and self._was_called(trial):
                memory = "noted" if number + 2 == len(one.trials) else "found"
            if touched or _changes_state(trial, one.weights):
                self.process.use_weights(one.weights)
            self._step(trial, one.weights, held, memory=memory)
            self.findings.called.add(trial.input_set)
            touched = _changes_state(trial, one.weights)
            if trial.then is not None:
                self._step(trial.then, trial.expected.state, held)

    def _was_called(self, trial: Trial) -> bool:
        return trial.input_set in self.findings.called and not trial.hidden

    def _step(
        self,
        trial: Trial,
        weights: Mapping[str, torch.Tensor],
        held: _Held,
        *,
        memory: Fresh = "filled",
    ) -> None:
        """One call with everything around it; `weights`: the state it starts from.

        `memory`: of one that is looked at, noted in the last but one of a round and found in the last.
        """
        looked_at = memory != "filled"
        keeps = not _changes_state(trial, weights)
        # What a copy of the module changes of its own goes with the copy.
        usual = trial.step is not None
        asked = USUAL if usual else self.deck.next(keeps_state=keeps and not looked_at)
        asked = replace(asked, memory=memory)
        answer = self._call_in(trial, weights, asked, looked_at=looked_at)
        self._say_what_was_seen(answer)
        # The next call uses the next autotuning configuration; a repeated call keeps it, or its bits would differ.
        self.findings.configuration += 1
        self._inputs_untouched(trial, answer)
        self._state_updated(trial, weights)
        if held.last is not None:
            self._still_the_same(*held.last)
        held.add(self.process.last_call, trial.arguments, answer.output)

    def _say_what_was_seen(self, answer: Answer) -> None:
        if answer.reads:
            self.findings.reads.update(dict.fromkeys(answer.reads))
            self.findings.disclosures["values_read"] = Disclosure(
                "values_read",
                f"values of tensors are taken to the host ({', '.join(self.findings.reads)}): what is decided "
                f"by other values, and how long a GPU is waited for, was not judged",
            )
        if answer.changed:
            self.findings.changed.update(dict.fromkeys(answer.changed))
            self.findings.disclosures["state_changes"] = Disclosure(
                "state_changes",
                f"{', '.join(self.findings.changed)} changed from one call to the next: what is done after "
                f"more calls, or other ones, than were made was not judged",
            )

    def _call_in(
        self,
        trial: Trial,
        weights: Mapping[str, torch.Tensor],
        asked: Surroundings,
        *,
        looked_at: bool = False,
    ) -> Answer:
        """A call in these surroundings; where it fails in them alone, the refusal names them."""
        try:
            return self._call(trial, asked, looked_at=looked_at)
        except Rejected as refused:
            if refused.reason.code in _OF_THE_PROCESS | {"tampering"}:
                # What it has left changed stays so: a second call may find nothing to change.
                raise
            if self.process.tuned:
                self._right_without_tuning(trial, weights, asked, refused)
            if asked == USUAL:
                raise
            if asked.another or _changes_state(trial, weights):
                # Loaded anew, also what was computed from the weights is made anew by those who watch them.
                self.process.use_weights(weights)
            answer = self._call(replace(trial, in_place=False))
            if not self.oracle.same_in(asked, trial.arguments):
                return answer
            raise Rejected(
                refused.reason.code,
                f"{asked.described}, where the reference answers the same: {refused.reason.message}",
                {**refused.reason.detail, "surroundings": asked.described},
            ) from refused

    def _right_without_tuning(
        self,
        trial: Trial,
        weights: Mapping[str, torch.Tensor],
        asked: Surroundings,
        refused: Rejected,
    ) -> None:
        """Raises `Rejected` with the reason where the same call is right once nothing is tuned in it."""
        tuned = ", ".join(f"`{name}`" for name in self.process.tuned)
        if _changes_state(trial, weights):
            self.process.use_weights(weights)
        try:
            self._call(replace(trial, in_place=False), asked)
        except Rejected:
            return
        raise Rejected(
            refused.reason.code,
            f"right but in the call in which Triton tunes {tuned}: it runs the configurations many times "
            f"on the same tensors before the launch; name those that a run adds to in "
            f"`reset_to_zero=[...]`, those that it changes in `restore_value=[...]`: "
            f"{refused.reason.message}",
            {**refused.reason.detail, "tuned": tuned},
        ) from refused

    def _call(
        self, trial: Trial, asked: Surroundings = USUAL, *, looked_at: bool = False
    ) -> Answer:
        if asked.another:
            self.process.call_another(trial.arguments)
        answer = self._answer(trial, asked, looked_at=looked_at)
        self.findings.calls += 1
        self.findings.candidate_s += answer.seconds
        rows = self.process.take_launches() if self.device == "virtual" else _told(answer)
        for row in rows:
            if row.get("fault"):
                fault = row["fault"]
                raise Rejected(fault["code"], fault["message"], fault.get("detail", {}))
        self.findings.order_matters |= any(row.get("order_matters") for row in rows)
        self.findings.undefined_lanes |= any(row.get("undefined_lanes") for row in rows)
        self._compare(trial, answer)
        if answer.not_copied is not None and self.oracle.same_in(asked, trial.arguments):
            self.findings.disclose(
                "not_copied",
                f"a call {asked.described} could not be made ({answer.not_copied}); your module can be copied",
            )
        if trial.step is None:
            self._in_the_same_form(trial, answer, asked)
        if answer.sharing is not None:
            self._in_memory_of_its_own(trial, answer.sharing)
        self._launched(trial, rows, looked_at=looked_at)
        if trial.step is None and not trial.hidden:
            self.findings.note_values(trial.input_set, trial.arguments)
        self.findings.memory.keep(answer.output)
        return answer

    def _answer(
        self, trial: Trial, asked: Surroundings = USUAL, *, looked_at: bool = False
    ) -> Answer:
        try:
            return self.process.call(
                trial.arguments,
                step=trial.step,
                in_place=trial.in_place,
                configuration=self.findings.configuration,
                surroundings=asked,
                looked_at=looked_at,
            )
        except Rejected as refused:
            if self.process.compiles and self.needs_kernel:
                raise compiled_by_torch() from refused
            raise

    def _launched(
        self, trial: Trial, rows: list[dict[str, Any]], *, looked_at: bool = False
    ) -> None:
        if self.process.compiles:
            self.findings.disclose("torch_compile", "torch.compile computes a part of the forward")
        # Launches replayed by a CUDA graph cannot be seen in the candidate's process; the knock-out decides on `cuda`.
        if not rows and self.needs_kernel and self.device == "virtual":
            if self.process.compiles:
                raise compiled_by_torch()
            for failure in self.process.failures:
                raise Rejected(failure["code"], failure["message"], failure.get("detail") or {})
            doing = "the forward" if trial.step is None else "the training step"
            earlier = " on this call, though it did on others" if self.findings.launches else ""
            raise Rejected(
                "no_kernel",
                f"{doing} launched no Triton kernel{earlier}; at least one @triton.jit kernel "
                f"must do real work on every path",
                {"input_set": trial.input_set, "probe": trial.probe},
            )
        if trial.step is None and not looked_at:
            # A call that is looked at has a mode of torch's on its stack, which a candidate can see.
            names = frozenset(str(row["kernel"]) for row in rows)
            self.findings.kernels.setdefault(trial.input_set, set()).add(names)
        seen = {row["input_set"] for row in self.findings.launches}
        if trial.input_set not in seen and not trial.hidden and trial.step is None:
            self.findings.launches += [row | {"input_set": trial.input_set} for row in rows]

    def _compare(self, trial: Trial, answer: Answer) -> None:
        output = answer.output
        if trial.step is not None:
            require_gradients(trial, output)
            require_fresh_gradients(trial, output)
            output = as_watched(output, trial.expected.output)
        comparison = compare.compare(
            output,
            trial.compared,
            input_set=trial.input_set,
            probe=trial.probe,
            devices=_devices(answer),
        )
        words = words_of(trial)
        self.findings.cases += [replace(c, output=words(c.output)) for c in comparison.cases]
        for disclosure in comparison.disclosures:
            if disclosure.code == "layout_differs" and trial.step is not None:
                # In torch a gradient's strides follow those of the upstream gradient, so a difference is not reported.
                continue
            self.findings.disclose(disclosure.code, words(disclosure.message))
        if not trial.expected.in_float64:
            self.findings.disclose(
                "oracle_in_float32", "the reference has no float64 path; it is its own oracle"
            )
        self._users_own(trial, output)
        if comparison.reason is not None and not self._user_accepts(comparison, trial, output):
            raise refusal_of(comparison, trial, self.findings.memory)

    def _user_accepts(self, comparison: Comparison, trial: Trial, output: Any) -> bool:
        loosened = (
            self.tolerance is not None
            and comparison.failure is not None
            and self.tolerance.accepts(output, trial.expected.output64)
        )
        if loosened:
            self.findings.disclose(
                "tolerance_loosened",
                "accepted by the --rtol/--atol given, though it is less accurate than the judge's "
                "own gate allows",
            )
        return loosened

    def _users_own(self, trial: Trial, output: Any) -> None:
        expected = trial.expected.output64
        if trial.step is not None:
            # The user's tolerance and test are about results; gradients have the judge's gate.
            output, expected = output[FORWARD], expected[FORWARD]
        if self.tolerance is not None and not self.tolerance.accepts(output, expected):
            raise Rejected(
                "wrong_output",
                f"the output is not within {self.tolerance} of the float64 reference",
                {"input_set": trial.input_set, "probe": trial.probe},
            )
        if self.check is not None:
            args, kwargs = trial.arguments
            if not self.check(output, *args, **kwargs):
                raise Rejected(
                    "wrong_output",
                    f"the user's own check {getattr(self.check, '__name__', '')} refuses the output",
                    {"input_set": trial.input_set, "probe": trial.probe},
                )

    def _inputs_untouched(self, trial: Trial, answer: Answer) -> None:
        if answer.gaps_written:
            raise Rejected(
                "input_mutated",
                "the forward writes between the elements of an input that is not contiguous: in your program "
                "that is memory of the tensor it is a view of",
                {"input_set": trial.input_set, "probe": trial.probe},
            )
        after = answer.changed_arguments or trial.arguments
        if _identical(after, trial.expected.arguments):
            return
        if _identical(trial.arguments, trial.expected.arguments):
            raise Rejected(
                "input_mutated",
                "the forward writes to its inputs; the reference leaves them as they are",
                {"input_set": trial.input_set, "probe": trial.probe},
            )
        expected = compare.Expected(trial.expected.arguments, trial.expected.arguments, {})
        result = compare.compare(after, expected, input_set=trial.input_set, probe=trial.probe)
        if result.reason is not None:
            raise Rejected(
                "input_mutated",
                f"the reference changes its inputs, and the candidate changes them differently: "
                f"{result.reason.message}",
                result.reason.detail,
            )

    def _state_updated(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        if not trial.expected.state or (
            self.findings.calls > 1 and not _changes_state(trial, weights)
        ):
            return
        state = self.process.state()
        for name, wanted in trial.expected.state.items():
            got = state.get(name)
            if got is None or got.shape != wanted.shape or got.dtype != wanted.dtype:
                raise Rejected(
                    "state_not_updated",
                    f"state entry {name} is missing or has another shape or dtype",
                )
            if name in weights and _same_bits(weights[name], wanted):
                right = _same_bits(got, wanted)
            else:
                expected = compare.Expected(
                    wanted, trial.expected.state64[name], {}, measure_noise=_noise_of(trial, name)
                )
                right = compare.compare(
                    got, expected, input_set=trial.input_set, probe=trial.probe
                ).passed
            if not right:
                raise Rejected(
                    "state_not_updated",
                    f"after the call, {name} differs from what the reference leaves",
                    {"input_set": trial.input_set, "state": name},
                )

    def _weights_untouched(self, weights: Mapping[str, torch.Tensor], how: Loading) -> None:
        state = self.process.state(how)
        whose = "a larger module that contains it" if how == "in a parent" else "the module"
        for name, given in weights.items():
            if name not in state or not _same_bits(state[name], given):
                raise Rejected(
                    "state_not_updated",
                    f"the forward writes to {name}, which the reference leaves as it is, or the state_dict "
                    f"of {whose} shows other values",
                    {"state": name},
                )

    def _in_the_same_form(self, trial: Trial, answer: Answer, asked: Surroundings) -> None:
        """What a result is besides its values; a class of the user's own a candidate cannot return."""
        inference = asked.gradients == "inference"
        differs = difference(answer.form, trial.expected.form, inference=inference)
        if differs is None:
            return
        if differs.refused:
            where = {"input_set": trial.input_set, "probe": trial.probe}
            raise Rejected("wrong_structure", differs.sentence, where)
        self.findings.disclose(differs.disclosure, differs.sentence)

    def _in_memory_of_its_own(self, trial: Trial, sharing: Sharing) -> None:
        """Results share memory with each other and with inputs only where the reference's do."""
        expected = trial.expected.sharing
        together = set(sharing.outputs) - set(expected.outputs)
        names = [n for n, leaf in compare.leaves(trial.expected.output) if torch.is_tensor(leaf)]
        where = {"input_set": trial.input_set, "probe": trial.probe}
        if together:
            pair = " and ".join(_name_of(names, at) for at in min(together))
            raise Rejected(
                "output_aliased",
                f"{pair} share memory, which the reference's do not: who writes to one changes the other",
                where,
            )
        given = set(sharing.inputs) - set(expected.inputs)
        if given:
            raise Rejected(
                "output_aliased",
                f"{_name_of(names, min(given))} lies in the memory of an input, which the reference's "
                f"does not: who writes to one changes the other",
                where,
            )
        apart = set(expected.inputs) - set(sharing.inputs)
        apart |= {at for pair in set(expected.outputs) - set(sharing.outputs) for at in pair[1:]}
        if apart:
            self.findings.disclose(
                "memory_not_shared",
                f"{_name_of(names, min(apart))} is memory of its own, where the reference's lies in that of an "
                f"input or of another result: writing to one does not change the other",
            )
        more = sharing.held_bytes - expected.held_bytes
        if more > _SPARE_BYTES and sharing.held_bytes > _SPARE * sharing.own_bytes:
            self.findings.disclose(
                "memory_held",
                f"results of {sharing.own_bytes:,} bytes lie in {sharing.held_bytes:,} bytes of memory, "
                f"which is not freed before they are",
            )

    def _nothing_lives_on(self, kept: Kept, trial: Trial) -> None:
        """Asked when earlier results and inputs were let go of."""
        if kept.outputs and not self.oracle.keeps_results(trial.arguments):
            raise Rejected(
                "output_aliased",
                f"the memory of {kept.outputs} of {kept.calls} earlier results lives on after their caller "
                f"let go of them: the module keeps results, to use their memory again or for ever; return "
                f"fresh memory and keep nothing of it",
                {"kept": kept.outputs},
            )
        if kept.inputs > 1:
            self.findings.disclose(
                "inputs_kept",
                f"the module keeps the memory of {kept.inputs} of {kept.calls} earlier calls' inputs: it is "
                f"not freed, and could be written to later",
            )

    def _still_the_same(self, call: int, output: Any) -> None:
        again, inputs_kept = self.process.held(call)
        if not inputs_kept:
            raise Rejected(
                "input_mutated",
                "the forward writes to the inputs of an earlier call",
                {"call": call},
            )
        if not _identical(again, output):
            raise Rejected(
                "output_aliased",
                "the output of one call changed when the next call ran; return fresh memory",
                {"call": call},
            )

    def _repeat(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        if _changes_state(trial, weights):
            self.process.use_weights(weights)
        first = self._call(trial)
        if _changes_state(trial, weights):
            self.process.use_weights(weights)
        second = self._call(trial)
        if not _identical(first.output, second.output):
            self.findings.disclose(
                "nondeterministic",
                "the same inputs give slightly different bits, within the budget",
            )
        elif self.findings.undefined_lanes and self.device == "virtual":
            self._other_lanes(trial, weights, second)

    def _other_lanes(
        self, trial: Trial, weights: Mapping[str, torch.Tensor], usual: Answer
    ) -> None:
        """A call with numbers where masked loads without `other` leave lanes undefined."""
        if _changes_state(trial, weights):
            self.process.use_weights(weights)
        self.process.command_executor({"kind": "lanes", "finite": True})
        try:
            same = _identical(self._answer(trial).output, usual.output)
        except Rejected:
            same = False
        finally:
            self.process.command_executor({"kind": "lanes", "finite": False})
        self.process.take_launches()
        if not same:
            self.findings.disclose(
                "undefined_lanes",
                "the answer depends on what a masked load without other= leaves in the lanes that are "
                "switched off; Triton does not define it, so give other=",
            )

    def _in_turns(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        """A call whose programs take turns at every access, as on a GPU: the answer must still be right."""
        if _changes_state(trial, weights):
            self.process.use_weights(weights)
        self.process.command_executor({"kind": "turns", "secret": secrets.randbits(62)})
        try:
            self._call(trial)
        except Rejected as refused:
            if refused.reason.code in ("timeout", "unverifiable", "out_of_memory"):
                self.findings.disclose(
                    "order_not_tried",
                    f"programs order each other by atomics, and were tried in their usual order only: "
                    f"{refused}",
                )
                return
            raise Rejected(
                "data_race",
                f"the answer is right only where programs run one after another; on a GPU they run at the "
                f"same time, and no atomic keeps these apart: {refused}",
                refused.reason.detail,
            ) from refused
        finally:
            self.process.command_executor({"kind": "turns", "secret": None})


@contextmanager
def _told_how(how: Loading) -> Iterator[None]:
    """A refusal for an answer as with earlier weights says how these ones came in."""
    try:
        yield
    except Rejected as refused:
        reason = refused.reason
        if how not in EXCHANGES or reason.code not in _WRONG:
            raise
        raise Rejected(
            reason.code,
            f"{reason.message} (the weights of this call had come in {CAME_IN[how]}; whoever keeps another "
            f"object, or what was computed from one, must see by data_ptr() and _version that it is old)",
            {**reason.detail, "loading": how},
        ) from refused


def _bytes_of(value: Any) -> int:
    leaves = (leaf for _, leaf in compare.leaves(value))
    return sum(t.numel() * t.element_size() for t in leaves if isinstance(t, torch.Tensor))


def _name_of(names: Sequence[str], at: int) -> str:
    return names[at] if 0 <= at < len(names) else "an output"


def _told(answer: Answer) -> list[dict[str, Any]]:
    """On `cuda`: the rows that the candidate's own process tells of."""
    return [to_data(row) for row in answer.launches]


def _devices(answer: Answer) -> dict[str, str] | None:
    if answer.devices is None:
        return None
    names = [n for n, leaf in compare.leaves(answer.output) if isinstance(leaf, torch.Tensor)]
    return dict(zip(names, answer.devices, strict=False))


def _noise_of(trial: Trial, name: str) -> compare.MeasureNoise | None:
    """How far a right value of this entry of the state may be off; entries are named as leaves are."""
    measure = trial.state_noise
    return None if measure is None else lambda _: measure(f"output[{name!r}]")


def _changes_state(trial: Trial, weights: Mapping[str, torch.Tensor]) -> bool:
    return any(
        not torch.equal(weights[name], after)
        for name, after in trial.expected.state.items()
        if name in weights
    )


def _identical(left: Any, right: Any) -> bool:
    """The same values, bit for bit."""
    ours, theirs = list(compare.leaves(left)), list(compare.leaves(right))
    return len(ours) == len(theirs) and all(
        _same_bits(a, b) for (_, a), (_, b) in zip(ours, theirs, strict=True)
    )


def _same_bits(left: Any, right: Any) -> bool:
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return type(left) is type(right) and bool(left == right)
    return same_bits(left.detach().cpu(), right.detach().cpu())
