"""Hard limits of a run, and what has been spent of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernelagent.domain.events import Evaluated, Event, ReplyReceived

DEFAULT_TURNS = 20
DEFAULT_DOLLARS = 5.0


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
            case Evaluated():
                used = sum(stage.seconds for stage in event.evaluation.stages)
                return replace(self, device_seconds=self.device_seconds + used)
            case _:
                return self


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
    used: tuple[tuple[float, float | None, str], ...] = (
        (spent.turns, budget.turns, "turns"),
        (spent.tokens, budget.tokens, "tokens"),
        (spent.dollars, budget.dollars, "dollars"),
        (elapsed_s / 60, budget.minutes, "minutes"),
        (spent.device_seconds, budget.device_seconds, "device seconds"),
    )
    for amount, limit, unit in used:
        if limit is not None and amount >= limit:
            return f"the budget of {limit:g} {unit} is spent"
    return None
