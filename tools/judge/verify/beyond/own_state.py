"""Calls in a row, each from the state that the candidate's own call before left: what it hides there must not matter.

A floating buffer may differ from the reference's by rounding, and its last bits are the candidate's to choose, as are the signs
of its zeros: a count of calls, say, with a seal that only it would write. Loading the reference's state before a call breaks it. So many
calls go on from the candidate's own state; and some of its last bits are changed, which must not change anything
that the reference's do not.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelagent.tools.judge.problem.reference.expected import Expected
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial
from kernelagent.tools.judge.problem.trials.trials import fresh_seed
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.refusal_words import WRONG_ANSWERS, with_words
from kernelagent.tools.judge.verify.same import changes_state, identical
from kernelagent.tools.judge.verify.side_effects import SideEffects

State = Mapping[str, torch.Tensor]
_CALLS = 240
_SECONDS, _SECONDS_IF_TOLD = 3.0, 15.0
"""Calls in a row, as far as they take no longer than this; the second where last bits decide something."""
_FIRST = 2
_EVERY = 10
"""The first calls are compared, and one in so many after them."""
_NUDGED_AFTER = (3, 5)
"""Calls after which last bits of the state are changed."""
_BITS: Mapping[int, torch.dtype] = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_LAST: Mapping[int, int] = {2: 3, 4: 6, 8: 12}
"""So many bits of a number may differ from the reference's by rounding, by the number's size in bytes."""


@dataclass(frozen=True)
class OwnState:
    """`call`: one call with all that is asked of its answer; `answer`: one with nothing asked."""

    process: CandidateProcess
    findings: Findings
    oracle: Oracle
    call: Callable[[Trial], Answer]
    answer: Callable[[Trial], Answer]

    def followed(self, this_round: Round) -> None:
        """Raises `Rejected` where a later call is wrong; leaves oracle and candidate with the round's weights."""
        trials = [t for t in this_round.trials if _moves_floats(t, this_round.weights)]
        if not trials:
            return
        self.process.use_weights(this_round.weights)
        try:
            self._go_on(trials, this_round.weights)
        except REFUSALS:
            # The reference has no answer from here: nothing more can be asked.
            return
        finally:
            self.oracle.use_weights(this_round.weights)
            self.process.use_weights(this_round.weights)

    def _go_on(self, trials: list[Trial], weights: State) -> None:
        chance, begun = random.SystemRandom(), time.monotonic()
        for number in range(1, 1 + _CALLS):
            trial = replace(chance.choice(trials), in_place=False)
            if number in _NUDGED_AFTER:
                self._require_nothing_in_last_bits(trial, self._state(weights))
            if number <= _FIRST or number % _EVERY == 0:
                self._compared(trial, self._state(weights), number)
            else:
                self.answer(trial)
            reported = "state_in_last_bits" in self.findings.disclosures
            if time.monotonic() - begun > (_SECONDS_IF_TOLD if reported else _SECONDS):
                return

    def _state(self, weights: State) -> State:
        result = self.process.state()
        return {name: result[name] for name in weights if name in result}

    def _compared(self, like: Trial, state: State, number: int) -> None:
        oracle = self._from(like, state)
        generator = torch.Generator().manual_seed(fresh_seed())
        scales = like.compared.natural_rms
        made = trial_on(oracle, like.input_set, like.probe, like.arguments, scales, generator)
        made = replace(made, step=like.step)
        words = f"in call {number} of a row in which each goes on from the state that the call before left"
        with with_words(words, {"in_a_row": number}, of=WRONG_ANSWERS | {"state_not_updated"}):
            self.call(made)
            SideEffects(self.process, self.findings, self.oracle).state_updated(made, state)

    def _require_nothing_in_last_bits(self, trial: Trial, state: State) -> None:
        """Told where last bits of the state decide what the reference's do not; the state is as before afterwards."""
        names = [name for name in trial.expected.state64 if _has_bits(state.get(name))]
        nudges = {name: nudged_bits(state[name]) for name in names}
        nudged_at = {name: _bits(state[name]) != _bits(nudges[name]) for name in names}
        other = {**state, **nudges}
        right, moved = (self._from(trial, s).expect(trial.arguments) for s in (state, other))
        if not (right.in_float64 and moved.in_float64):
            return
        dependent = self._dependent_on(trial, state, nudged_at)
        own, again, nudged = (self._left_from(s, trial) for s in (state, state, other))
        self.process.use_weights(state)
        if not identical(own, again):
            return
        ours, theirs = dict(compare.leaves(own)), dict(compare.leaves(nudged))
        first, second = _leaves_in_float64(right), _leaves_in_float64(moved)
        # A zero's sign that is passed on where it stood tells nothing.
        of_state = {f"output[1][{name!r}]": at for name, at in nudged_at.items()}
        differ = [
            n
            for n in ours.keys() & first.keys()
            if more_differs(
                ours[n], theirs[n], first[n], second[n], dependent.get(n), of_state.get(n)
            )
        ]
        if differ:
            self.findings.disclose(
                "state_in_last_bits",
                f"last bits or signs of zeros in {', '.join(names)} decide what your module's do not: where some of "
                f"them are changed, other elements of the state or the result differ. What is kept there from call "
                f"to call, such as a count, was followed for some {_CALLS} calls at most",
            )

    def _dependent_on(
        self, trial: Trial, state: State, at: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Which elements the reference computes from these places, be it without a difference: a share of the whole, say.

        Zeros apart, whose signs it does not show.
        """
        unknown = {
            name: state[name].masked_fill(at[name] & (state[name] != 0), torch.nan) for name in at
        }
        try:
            expected = self._from(trial, {**state, **unknown}).expect(trial.arguments)
        except REFUSALS:
            # It refuses NaN: nothing is known.
            return {}
        leaves = _leaves_in_float64(expected)
        return {name: leaf.isnan() for name, leaf in leaves.items() if torch.is_tensor(leaf)}

    def _left_from(self, state: State, trial: Trial) -> tuple[Any, dict[str, torch.Tensor]]:
        self.process.use_weights(state)
        output = self.answer(trial).output
        after = self._state(state)
        return output, {name: after[name] for name in trial.expected.state64 if name in after}

    def _from(self, trial: Trial, state: State) -> Oracle:
        self.oracle.use_weights(state)
        return self.oracle if trial.step is None else self.oracle.asking(trial.step)


def _moves_floats(trial: Trial, weights: State) -> bool:
    """Whether the call, of natural inputs and without a backward, leaves other floating numbers in the state."""
    plain = trial.step is None or not trial.step.upstream
    if trial.hidden or trial.probe != "natural" or not plain or trial.expected.left:
        return False
    moved = any(
        (of := weights.get(name)) is not None and (_has_bits(of) or of.is_complex())
        for name in trial.expected.state64
    )
    return moved and changes_state(trial, weights)


def _has_bits(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and tensor.is_floating_point() and tensor.element_size() in _BITS


def nudged_bits(tensor: torch.Tensor) -> torch.Tensor:
    """Half of the elements, drawn, with other last bits: of zeros the sign, of what is below the normal numbers any."""
    changed = tensor.detach().clone(memory_format=torch.contiguous_format)
    bits, kind = changed.view(_BITS[tensor.element_size()]), torch.finfo(tensor.dtype)
    generator = torch.Generator().manual_seed(fresh_seed())

    def drawn(count: int) -> torch.Tensor:
        most = 1 << count
        return torch.randint(most, tensor.shape, generator=generator).to(bits)

    fraction = -round(math.log2(kind.eps))
    tiny, zero = changed.abs() < kind.smallest_normal, changed == 0
    other = torch.where(tiny, drawn(fraction), drawn(_LAST[tensor.element_size()]))
    other = torch.where(zero, torch.iinfo(bits.dtype).min, other)
    some = changed.isfinite() & drawn(1).bool()
    bits ^= torch.where(some, other, torch.zeros_like(bits))
    return changed


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().view(_BITS[tensor.element_size()])


def _leaves_in_float64(expected: Expected) -> dict[str, Any]:
    return dict(compare.leaves((expected.output64, dict(expected.state64))))


def more_differs(
    own: Any,
    nudged: Any,
    right: Any,
    moved: Any,
    dependent: torch.Tensor | None,
    nudged_at: torch.Tensor | None,
) -> bool:
    """Whether an element differs where the reference's are the same, bit for bit, and computed without those nudged.

    `nudged_at`: of an entry of the state, which may differ in the signs of zeros where it was changed itself, and nowhere
    else; None: of a result, in which they tell nothing.
    """
    tensors = (own, nudged, right, moved)
    if not all(isinstance(t, torch.Tensor) and t.shape == own.shape for t in tensors):
        return False
    equal = (own == nudged) | (own.isnan() & nudged.isnan())
    same = right == moved
    if dependent is not None and dependent.shape == same.shape:
        same &= ~dependent
    if nudged_at is not None:
        equal &= nudged_at | (_bits(own) == _bits(nudged)) | own.isnan()
        same &= right.signbit() == moved.signbit()
    return bool((~equal & same).any())
