"""What a call leaves besides its values: inputs, state, memory, and the form of what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from kernelagent.tools.calls.complex_numbers import is_inexact, parts_first
from kernelagent.tools.calls.loading import Loading
from kernelagent.tools.calls.result_form import difference
from kernelagent.tools.calls.surroundings import Surroundings
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.calls.whereabouts import Whereabouts
from kernelagent.tools.judge.problem.reference.attributes import GLOBAL
from kernelagent.tools.judge.problem.reference.expected import INPUTS
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.regions import MeasureNoise
from kernelagent.tools.judge.verify.compare.rounding_alone import rounding_alone
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import Answer, Kept
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.verify.same import changes_state, identical, same_bits_of

_OF_ATTRIBUTES = 1e-3
_MEANWHILE = (
    "whoever reads that memory meanwhile, in another thread or stream, reads something else"
)
_KEPT = 2
_KEPT_BYTES = 1 << 20
"""A module is reported if it keeps more than `_KEPT` times the bytes of its parameters, buffers, inputs and outputs,
plus `_KEPT_BYTES`."""


@dataclass(frozen=True)
class SideEffects:
    """Compared with what the reference leaves; raises `Rejected`, or discloses what harms few."""

    process: CandidateProcess
    findings: Findings
    oracle: Oracle

    def inputs_untouched(self, trial: Trial, answer: Answer) -> None:
        if answer.gaps_written:
            raise Rejected(
                "input_mutated",
                "the forward writes between the elements of an input that is not contiguous: in your program "
                "that is memory of the tensor it is a view of",
                {"input_set": trial.input_set, "probe": trial.probe},
            )
        if answer.written_meanwhile and INPUTS not in trial.expected.written:
            self.findings.disclose(
                "inputs_written",
                f"an input is written to, and holds after the call what it held before: {_MEANWHILE}",
            )
        own = [n for n in answer.weights_written if n not in trial.expected.written]
        if own:
            known = any(name in self.oracle.weights for name in own)
            whose = "your module only reads" if known else "your module has not"
            self.findings.disclose(
                "weights_written",
                f"a call writes to {', '.join(own)} of the module, which {whose}: {_MEANWHILE}, and calls at the same "
                f"time get each other's numbers",
            )
        after = answer.changed_arguments or trial.arguments
        if identical(after, trial.expected.arguments):
            return
        if identical(trial.arguments, trial.expected.arguments):
            raise Rejected(
                "input_mutated",
                "the forward writes to its inputs; the reference leaves them as they are",
                {"input_set": trial.input_set, "probe": trial.probe},
            )
        exact = trial.expected.arguments64 or trial.expected.arguments
        expected = compare.Expected(trial.expected.arguments, exact, {})
        result = compare.compare(after, expected, input_set=trial.input_set, probe=trial.probe)
        if result.reason is not None:
            raise Rejected(
                "input_mutated",
                f"the reference changes its inputs, and the candidate changes them differently: "
                f"{result.reason.message}",
                result.reason.detail,
            )

    def state_updated(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        if not trial.expected.state or (
            self.findings.calls > 1 and not changes_state(trial, weights)
        ):
            return
        state, own = self.process.state(), self.findings.own_state
        self.findings.own_state = state
        for name, wanted in trial.expected.state.items():
            got = state.get(name)
            if got is None or got.shape != wanted.shape or got.dtype != wanted.dtype:
                raise Rejected(
                    "state_not_updated",
                    f"state entry {name} is missing or has another shape or dtype",
                )
            exact = trial.expected.state64.get(name)
            if exact is None or (name in weights and left_alone(weights[name], wanted, exact)):
                # In a sequence of calls it goes on from what its own call before left, which was right but for rounding.
                kept = name in own and same_bits_of(got, own[name])
                right = same_bits_of(got, wanted) or kept
            else:
                expected = compare.Expected(wanted, exact, {}, measure_noise=_noise_of(trial, name))
                right = compare.compare(
                    got, expected, input_set=trial.input_set, probe=trial.probe
                ).passed
                self._more_than_rounding(trial, name, got)
            if not right:
                raise Rejected(
                    "state_not_updated",
                    f"after the call, {name} differs from what the reference leaves{_where(got, wanted)}",
                    {"input_set": trial.input_set, "state": name},
                )

    def _more_than_rounding(self, trial: Trial, name: str, got: torch.Tensor) -> None:
        wanted, exact = trial.expected.state[name], trial.expected.state64[name]
        if trial.probe == "natural" and trial.step is None and is_inexact(wanted):
            alone = rounding_alone(f"{name}, after a call", got, wanted, exact)
            if alone is not None:
                self.findings.disclose(alone.code, alone.message)

    def state_not_given(self, trial: Trial) -> None:
        """Discloses that no call was given the state that it writes to, where that would fit an input."""
        forms = {(tensor.shape, tensor.dtype) for tensor in tensors_of(trial.arguments)}
        fitting = [
            name
            for name in trial.expected.state64
            if (entry := trial.expected.state[name]).dim() and (entry.shape, entry.dtype) in forms
        ]
        if fitting:
            self.findings.disclose(
                "state_as_input",
                f"a call writes to {', '.join(fitting)}, which would fit an input as well: a call that is given the "
                f"very tensor, as in m(m.{fitting[0]}), was not judged",
            )

    def left_alike(self, trial: Trial) -> None:
        """What the reference leaves in attributes and other buffers; told where there is nothing alike."""
        wanted = trial.expected.left
        if not wanted:
            return
        names = [name for name in wanted if not name.startswith(GLOBAL)]
        got = self.process.attributes(names) if names else {}
        written = {n: v for n, v in got.items() if not self.oracle.attributes.was(n, v)}
        missing = [name for name in wanted if name not in written]
        if missing:
            self.findings.disclose(
                "attributes_left",
                f"a call of your module leaves new values in {', '.join(missing)}, which neither ModelNew nor the emitted "
                f"module does: what reads them there finds what was there before, or nothing",
            )
        self.findings.left.update(name for name in wanted if name in written)
        for name, value in written.items():
            if not _as_left(value, wanted[name], trial.expected.left64.get(name, wanted[name])):
                raise Rejected(
                    "state_not_updated",
                    f"after the call, {name} of the module differs from what the reference leaves there",
                    {"input_set": trial.input_set, "state": name},
                )
        if trial.step is not None and any(map(torch.is_tensor, tensors_of(list(wanted.values())))):
            self.findings.disclose(
                "attributes_without_gradients",
                f"gradients were verified through what the forward returns, not through what it leaves in "
                f"{', '.join(wanted)}",
            )

    def weights_untouched(self, weights: Mapping[str, torch.Tensor], how: Loading) -> None:
        state = self.process.state(how)
        whose = "a larger module that contains it" if how == "in a parent" else "the module"
        for name, given in weights.items():
            if name not in state or not same_bits_of(state[name], given):
                raise Rejected(
                    "state_not_updated",
                    f"the forward writes to {name}, which the reference leaves as it is, or the state_dict "
                    f"of {whose} shows other values",
                    {"state": name},
                )

    def in_the_same_form(self, trial: Trial, answer: Answer, asked: Surroundings) -> None:
        """What a result is besides its values; a class of the user's own a candidate cannot return."""
        if asked.by_identity:
            # Where a result is an input or a weight itself, it is what that is.
            return
        inference = asked.gradients == "inference"
        differs = difference(answer.form, trial.expected.form, inference=inference)
        if differs is None:
            return
        if differs.disclosure == "result_unaligned" and asked.inside != "no":
            # A view of an input begins where that does.
            return
        if differs.refused:
            where = {"input_set": trial.input_set, "probe": trial.probe}
            raise Rejected("wrong_structure", differs.sentence, where)
        self.findings.disclose(differs.disclosure, differs.sentence)

    def little_is_kept(self, trial: Trial, answer: Answer) -> None:
        """Discloses a module that keeps far more memory than its state, its inputs and its results have."""
        module = self.oracle.module
        values = [*module.parameters(), *module.buffers()]
        values += tensors_of((trial.arguments, answer.output))
        usual = sum(t.numel() * t.element_size() for t in values)
        if answer.kept_bytes > _KEPT * usual + _KEPT_BYTES:
            self.findings.disclose(
                "memory_kept",
                f"the module keeps {answer.kept_bytes / 1e6:,.1f} MB of memory besides its parameters and buffers "
                f"for as long as it lives; the original's, its inputs and its results are {usual / 1e6:,.1f} MB",
            )

    def nothing_lives_on(self, kept: Kept, trial: Trial) -> None:
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

        if kept.in_cycles:
            self.findings.disclose(
                "freed_late",
                f"inputs or results of {kept.in_cycles} of {kept.calls} earlier calls are held in a cycle of references: "
                f"their memory is freed only when Python looks for such cycles, which does not know how full a GPU is",
            )

    def still_the_same(self, call: int, output: Any, expected: Whereabouts) -> None:
        """What a call has returned and left to its caller does not change later, but where it is the module's own."""
        again, inputs_kept = self.process.held(call)
        if not inputs_kept and not expected.shares_state:
            raise Rejected(
                "input_mutated",
                "the forward writes to the inputs of an earlier call, or to what that call left in their containers",
                {"call": call},
            )
        state = expected.results_of_state
        if not identical(_without(again, state), _without(output, state)):
            raise Rejected(
                "output_aliased",
                "the output of one call changed when the next call ran; return fresh memory",
                {"call": call},
            )


def left_alone(before: torch.Tensor, after: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether the reference leaves an entry of the state as it was, and not only by its own rounding.

    An average that has come close moves by less than its last place: another right formula may round otherwise.
    `exact`: what it leaves in float64.
    """
    if not same_bits_of(before, after):
        return False
    was = before.to(exact.dtype)
    return bool(((was == exact) | ((was != was) & (exact != exact))).all())


def _where(got: torch.Tensor, wanted: torch.Tensor) -> str:
    """The first element that is another one, in words."""
    other = ~((got == wanted) | ((got != got) & (wanted != wanted))).reshape(-1)
    if not other.any():
        return ""
    at = int(other.nonzero()[0])
    place = f"[{', '.join(str(int(i)) for i in torch.unravel_index(torch.tensor(at), got.shape))}]"
    shown = place if got.dim() else "it"
    return f": {shown} is {got.reshape(-1)[at].item()!r}, there {wanted.reshape(-1)[at].item()!r}"


def _without(value: Any, places: tuple[int, ...]) -> Any:
    """The same without some of its tensors, by their place among them."""
    if not places:
        return value
    tensors = count()
    return tree_map_only(torch.Tensor, lambda t: None if next(tensors) in places else t, value)


def _as_left(value: Any, wanted: Any, exact: Any) -> bool:
    """By the gate, or within a thousandth: no noise is measured for what is no result."""
    compared = compare.compare(value, compare.Expected(wanted, exact, {}), input_set="", probe="")
    if compared.passed or compared.failure is None:
        return compared.passed
    pairs = zip(tensors_of(value), tensors_of(exact), strict=True)
    return all(
        torch.allclose(
            parts_first(a).double(),
            parts_first(b).double(),
            rtol=_OF_ATTRIBUTES,
            atol=1e-5,
            equal_nan=True,
        )
        for a, b in pairs
    )


def _noise_of(trial: Trial, name: str) -> MeasureNoise | None:
    """How far a right value of this entry of the state may be off; entries are named as leaves are."""
    measure = trial.state_noise
    if measure is None:
        return None
    return lambda _, enough=None: measure(f"output[{name!r}]", enough)
