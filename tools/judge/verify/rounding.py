"""How a GPU may round what the interpreter rounds otherwise, and when it is right to have another answer for it.

Calls that are made anyhow are made in one of these ways, drawn for each: so they have all kinds of inputs and weights,
and training steps.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.judge.problem.reference.expected import Expected
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.exact import IndexRule
from kernelagent.tools.judge.verify.rejection import Rejected

MOST_FLIPPED = 0.01
"""The share of whole numbers on natural inputs that last bits may carry over a bound."""
_TOLD = 0.001
"""The same on special inputs, which many of them meet exactly: more are told, and none refused."""


@dataclass(frozen=True)
class Rounding:
    """As the executor is asked for it."""

    order: str | None = None
    """Of sums, with products fused; None: the interpreter's own, and none is."""
    errs: bool = False
    """Whether quotients, roots, exponentials and the like are off by a last place."""

    @property
    def words(self) -> str:
        """What a candidate relies on that is wrong in this way alone."""
        parts = []
        if self.order is not None:
            parts.append("products are rounded before they are added, sums have one order")
        if self.errs:
            parts.append(
                "quotients, roots and exponentials are exact in their last place, as tl.div_rn and tl.sqrt_rn are"
            )
        return " and ".join(parts)


EXACT = Rounding()


class Roundings:
    """Draws how each call of a judging rounds."""

    def __init__(self) -> None:
        # Of forwards and of training steps.
        self._turns = {which: secrets.choice((True, False)) for which in (True, False)}

    def next(self, trial: Trial) -> Rounding:
        """Every second call on natural inputs rounds as the interpreter does, and none on special ones."""
        if trial.probe == "natural":
            self._turns[trial.step is None] ^= True
            if self._turns[trial.step is None]:
                return EXACT
        return Rounding(_some_order(), errs=True)


def _some_order() -> str:
    """Mostly that of the compiled kernel's threads, which is the likeliest."""
    return secrets.choice(("threads", "threads", "neighbours", str(secrets.randbits(62))))


@dataclass
class LastBits:
    """A call's whole numbers where its last bits are others: some may differ, where rounding decides in the reference."""

    trial: Trial
    special: bool
    """Whether inputs were made so that many numbers meet a bound exactly."""
    flipped: dict[str, float] = field(default_factory=dict)
    """By output: the share that was accepted for it."""

    @property
    def compared(self) -> Trial:
        """The trial with these accepted."""
        usual = self.trial.compared.index_ok
        return replace(
            self.trial, compared=replace(self.trial.compared, index_ok=self._rule(usual))
        )

    def _rule(self, usual: IndexRule | None) -> IndexRule:
        near = self.trial.near_ties

        def rule(name: str, got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
            right = got == expected
            if usual is not None:
                right |= usual(name, got, expected)
            wrong = ~right
            share = float(wrong.sum()) / max(1, wrong.numel())
            if share >= MOST_FLIPPED and not self.special:
                return right
            open_ones = wrong if near is None else near(name, got, wrong)
            if bool((wrong & ~open_ones).any()):
                return right
            self.flipped[name] = share
            return right | open_ones

        return rule

    def told(self, rounding: Rounding) -> Disclosure | None:
        """Where many whole numbers are others on special values."""
        many = {name: share for name, share in self.flipped.items() if share >= _TOLD}
        if not many or not self.special:
            return None
        shares = ", ".join(f"{share:.1%} of {name}" for name, share in many.items())
        return last_place_decides(rounding, f"{shares} on inputs that meet a bound exactly")


def without_an_answer(output: Any, expected: Expected) -> str | None:
    """What of a result is not finite, or another whole number, where the reference is sure to have one."""
    exact = dict(compare.leaves(expected.output64))
    got = dict(compare.leaves(output))
    for name, eager in compare.leaves(expected.output):
        ours, theirs = got.get(name), exact.get(name)
        if not all(isinstance(t, torch.Tensor) and t.shape == eager.shape for t in (ours, theirs)):
            continue
        assert isinstance(ours, torch.Tensor)
        assert isinstance(theirs, torch.Tensor)
        if eager.is_floating_point() or eager.is_complex():
            sure = bool(widened(eager).isfinite().all()) and bool(widened(theirs).isfinite().all())
            wrong, how = ~widened(ours).isfinite() & sure, "NaN or infinite"
        else:
            wrong, how = (ours != eager) & (ours != theirs), "otherwise"
        count = int(wrong.sum())
        if count > _TOLD * wrong.numel():
            return f"{name} is {how} in {count} of {wrong.numel()} elements"
    return None


def last_place_decides(rounding: Rounding, what: str) -> Disclosure:
    """Where it is right only in the usual rounding, on special values, and no GPU need have that."""
    where = f"unless {rounding.words}" if rounding.words else "where a last place decides"
    return Disclosure(
        "last_place_decides",
        f"it answers otherwise than your module {where}, and a GPU rounds otherwise: {what}",
    )


def right_in_one_rounding(rounding: Rounding, refused: Rejected) -> Rejected:
    """The refusal of an answer that is wrong in this way alone."""
    return Rejected(
        refused.reason.code,
        f"right only while {rounding.words}, and a GPU rounds otherwise: {refused.reason.message}",
        {**refused.reason.detail, "rounding": "otherwise"},
    )
