"""Checks a measured time by chained calls: each input depends on the previous output; outputs are judged.

Let a, b be host and device time of a call, and c, d those of selecting its inputs. Host and device
overlap, so an honest chained call takes max(a+c, b+d) <= max(a, b) + max(c, d): at most an ordinary call
and the selection of inputs, one after the other. A candidate that answers late, for several calls at once, or from memory takes longer, or answers wrong.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.cuda.chain import digest, pair_at, picked
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.one_trial import trial_on
from kernelagent.tools.judge.timing.clock import Chain, Side
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

_LOOKS = 9
_ENOUGH = 3
"""Measurements within the bound that are enough to accept; other load on the machine may disturb some."""
_LONGER = (1, 4, 16)
"""Block length by round, as a factor: a candidate out of bounds is measured again with longer blocks."""
_REPLAYED = 4
_TOLERANCE = 1.25
_SLACK_US = 5.0
"""What a chain may take beyond its bound: clocks and caches are not exact."""


@dataclass(frozen=True)
class Chained:
    """What the chain took, beside the time as called."""

    as_called_us: float
    chained_us: float
    picking_us: float
    disclosures: tuple[Disclosure, ...] = ()

    @property
    def excess_us(self) -> float:
        """What the chain took beyond anything honest work takes; negative where it is in bounds."""
        bound = _TOLERANCE * self.as_called_us + _SLACK_US
        return self.chained_us - self.picking_us - bound


def cross_examine(
    context: JudgeContext,
    source: InputSource,
    sets: Sequence[Any],
    sides: Mapping[str, Side],
    process: CandidateProcess,
    step: TrainingStep | None = None,
) -> Chained:
    """Chain the candidate's calls, bound their time, and judge some of their answers.

    Raises `Rejected`: `inconsistent_timing` for a chain that takes too long or answers that are not
    the same when asked again, and what the comparison says of a wrong one.
    """
    oracle = context.oracle if step is None else context.oracle.asking(step)
    asked = _Asked(oracle, partial(process.call, step=step))
    for longer in _LONGER:
        look, chain, in_bounds = _looked(sides["candidate"], sides["eager"], longer)
        # Check outputs before times: other load on the machine can disturb a time, never an output.
        notes = _replayed(context, source, sets, chain, asked)
        if in_bounds:
            return replace(look, disclosures=notes)
    raise Rejected(
        "inconsistent_timing",
        f"a call takes {look.as_called_us:.1f} us when inputs are known ahead, and "
        f"{look.chained_us - look.picking_us:.1f} us when each input depends on the answer "
        f"before; the work must be done in the call that asks for it",
        {
            "input_set": source.name,
            "as_called_us": look.as_called_us,
            "looks": _LOOKS * len(_LONGER),
        },
    )


def _looked(own: Side, eager: Side, longer: int) -> tuple[Chained, Chain, bool]:
    """One round of looks: the last, a chain that was timed, and whether enough were in bounds."""
    timed: list[Chain] = []
    in_bounds = 0
    for _ in range(_LOOKS):
        as_called_us = own.per_call_us(longer)
        chained_us, chain = own.chained(longer)
        look = Chained(as_called_us, chained_us, eager.picking_us(longer))
        timed.append(chain)
        in_bounds += look.excess_us <= 0
        if in_bounds == _ENOUGH:
            break
    return look, secrets.choice(timed), in_bounds == _ENOUGH


@dataclass(frozen=True)
class _Asked:
    """Reference and candidate, both answering with what a timed call leaves."""

    oracle: Oracle
    call: Callable[[Any], Answer]


def _replayed(
    context: JudgeContext,
    source: InputSource,
    sets: Sequence[Any],
    chain: Chain,
    asked: _Asked,
) -> tuple[Disclosure, ...]:
    """Some calls of the chain, chosen now, are asked again: right, and the same as in the chain?"""
    device = torch.device(context.judge_device.torch_device)
    generator = torch.Generator().manual_seed(secrets.randbelow(1 << 62))
    natural = compare.scales_of(asked.oracle.in_float64_or_eager(sets[0]))
    other_bits = False
    calls = len(chain.digests)
    chosen = secrets.SystemRandom().sample(range(calls), min(_REPLAYED, calls))
    for at in chosen:
        state = torch.tensor(chain.before(at), dtype=torch.int64, device=device)
        arguments = picked(*pair_at(sets, at), state)
        answer = asked.call(arguments)
        trial = trial_on(asked.oracle, source.name, "chained", arguments, natural, generator)
        result = compare.compare(
            answer.output, trial.compared, input_set=source.name, probe="chained"
        )
        if result.reason is not None:
            raise Rejected(result.reason.code, result.reason.message, result.reason.detail)
        other_bits |= int(digest(answer.output)) != int(chain.digests[at])
    if not other_bits:
        return ()
    return (_differs_by_bits(source, sets, asked),)


def _differs_by_bits(source: InputSource, sets: Sequence[Any], asked: _Asked) -> Disclosure:
    """Different bits are fine where the candidate never gives the same bits; otherwise it cheated."""
    answers = {int(digest(asked.call(sets[0]).output)) for _ in range(_REPLAYED)}
    if len(answers) == 1:
        raise Rejected(
            "inconsistent_timing",
            "a timed call gave another answer than the same call asked again, though equal calls "
            "give equal bits; timed calls must do the whole work",
            {"input_set": source.name},
        )
    return Disclosure(
        "timed_outputs_not_compared",
        f"input set {source.name!r}: equal calls give different bits, so that the answers of the "
        f"timed calls were judged when asked again, not bit by bit",
    )
