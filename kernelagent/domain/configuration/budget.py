"""Hard limits of a run, each declared once, and what has been spent of them.

Command line, configuration, `steer RUN budget`, reports and the TUI are made from `RUN_LIMITS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from kernelagent.domain.configuration.options import LIMITS, Option, options_of
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.events import (
    CandidatesRanked,
    Evaluated,
    Event,
    ReplyReceived,
    ToolCalled,
    WinnerMeasured,
)
from kernelagent.domain.replies.tool_calls import ToolResult

DEFAULT_TURNS = 20
DEFAULT_DOLLARS = 5.0
CHARACTERS_PER_TOKEN = 4
"""Estimates tokens where no tokenizer and no provider has counted them."""


@dataclass(frozen=True)
class Budget:
    """Each limit is optional; None means no limit."""

    turns: int | None = DEFAULT_TURNS
    tokens: int | None = None
    dollars: float | None = None
    minutes: float | None = None
    device_seconds: float | None = None


@dataclass(frozen=True)
class Cost:
    """The most that one ask can cost; None where it is unknown."""

    tokens: int | None = 0
    dollars: float | None = 0.0


@dataclass(frozen=True)
class Spent:
    """A fold over the events: what the run has used so far."""

    turns: int = 0
    tokens: int = 0
    dollars: float = 0.0
    unpriced_tokens: int = 0
    device_seconds: float = 0.0
    again_seconds: float = 0.0
    """Of judging the best again, once no turn is left: no limit counts it."""

    def with_ask(self, most: Cost) -> Spent:
        """As if an ask in flight had cost the most it can."""
        return replace(
            self,
            turns=self.turns + 1,
            tokens=self.tokens + (most.tokens or 0),
            dollars=self.dollars + (most.dollars or 0.0),
        )

    def after(self, event: Event) -> Spent:
        match event:
            case ReplyReceived():
                tokens = event.tokens_in + event.tokens_out
                unpriced = tokens if event.dollars is None else 0
                return replace(
                    self,
                    # Not when it began: a turn that is asked twice is one turn.
                    turns=self.turns + 1,
                    tokens=self.tokens + tokens,
                    dollars=self.dollars + (event.dollars or 0.0),
                    unpriced_tokens=self.unpriced_tokens + unpriced,
                )
            case ToolCalled(result=ToolResult(seconds=seconds)) | CandidatesRanked(seconds=seconds):
                return replace(self, device_seconds=self.device_seconds + seconds)
            case Evaluated():
                used = _judging_s(event.evaluation)
                return replace(self, device_seconds=self.device_seconds + used)
            case WinnerMeasured():
                used = _judging_s(event.evaluation)
                return replace(self, again_seconds=self.again_seconds + used)
            case _:
                return self


def _judging_s(evaluation: Evaluation) -> float:
    return sum(stage.seconds for stage in evaluation.stages)


@dataclass(frozen=True)
class Limit:
    """What a limit is beside its option: where it is kept, what counts towards it, its words."""

    name: str
    """The field of `Budget`; with spaces for dashes its unit in a sentence."""
    used: Callable[[Spent, float], float]
    """How much of it is used up, from what was spent and the seconds since the run began."""
    wording: Callable[[float], str]
    """An amount that was used, in a report."""
    other_names: tuple[str, ...] = ()
    """What else `steer RUN budget` takes for it."""
    whole: bool = False
    """It is a whole number."""

    @property
    def unit(self) -> str:
        return self.name.replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """The options that limit a run."""

    turns: Annotated[
        int | None,
        Option("At most this many turns.", LIMITS, least=1),
        Limit("turns", lambda spent, _: spent.turns, "{:g} turns".format, whole=True),
    ] = None
    budget_tokens: Annotated[
        int | None,
        Option("At most this many tokens.", LIMITS),
        Limit("tokens", lambda spent, _: spent.tokens, "{:.0f} tokens".format, whole=True),
    ] = None
    budget_usd: Annotated[
        float | None,
        Option("At most this many dollars.", LIMITS),
        Limit("dollars", lambda spent, _: spent.dollars, "{:.4f} dollars".format, ("usd",)),
    ] = None
    budget_minutes: Annotated[
        float | None,
        Option("At most this long.", LIMITS),
        Limit("minutes", lambda _, seconds: seconds / 60, lambda used: f"{used * 60:.0f} s in all"),
    ] = None
    budget_gpu_seconds: Annotated[
        float | None,
        Option("At most this long on the device.", LIMITS),
        Limit(
            "device_seconds",
            lambda spent, _: spent.device_seconds,
            "{:.1f} s of judging".format,
            ("gpu-seconds",),
        ),
    ] = None

    @property
    def budget(self) -> Budget:
        """The limits; when none is given, 20 turns and 5 dollars."""
        given: dict[str, Any] = {
            limit.name: getattr(self, option) for option, limit in RUN_LIMITS.items()
        }
        if all(amount is None for amount in given.values()):
            return Budget(turns=DEFAULT_TURNS, dollars=DEFAULT_DOLLARS)
        return Budget(**given)


RUN_LIMITS: dict[str, Limit] = {
    name: note
    for name, field in options_of(BudgetOptions).items()
    for note in field.notes
    if isinstance(note, Limit)
}
"""Every limit by the name of its option."""


def why_too_dear(budget: Budget, spent: Spent, ask: Cost) -> str | None:
    """A sentence if the worst-case cost of the next request exceeds the remaining budget, else None."""
    used: tuple[tuple[float | None, float | None, float, str], ...] = (
        (ask.tokens, budget.tokens, spent.tokens, "tokens"),
        (ask.dollars, budget.dollars, spent.dollars, "dollars"),
    )
    for most, limit, so_far, unit in used:
        if most is not None and limit is not None and so_far + most > limit:
            return (
                f"the next ask may cost up to {most:g} {unit}, and {limit - so_far:g} of the budget "
                f"of {limit:g} {unit} are left"
            )
    return None


def why_spent(budget: Budget, spent: Spent, elapsed_s: float) -> str | None:
    """A sentence naming the limit that is reached, or None while there is something left."""
    for limit in RUN_LIMITS.values():
        most = getattr(budget, limit.name)
        if most is not None and limit.used(spent, elapsed_s) >= most:
            return f"the budget of {most:g} {limit.unit} is spent"
    return None


def spent_text(spent: Spent, elapsed_s: float) -> str:
    """What a run has used, and what of it has no known price."""
    amounts = [limit.wording(limit.used(spent, elapsed_s)) for limit in RUN_LIMITS.values()]
    if spent.again_seconds:
        amounts.append(f"{spent.again_seconds:.1f} s of judging the best again")
    unpriced = spent.unpriced_tokens
    return ", ".join(amounts) + (f"; {unpriced} tokens without a known price" if unpriced else "")
