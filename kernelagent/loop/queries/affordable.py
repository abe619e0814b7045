"""Which queries of a batch the budget allows, at the most that each may cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from kernelagent.domain.configuration.budget import Budget, Cost, Spent, why_spent, why_too_dear
from kernelagent.models import Model, ModelQuery, Priced

Amount = TypeVar("Amount", int, float)


def affordable(
    queries: Sequence[ModelQuery], budget: Budget, spent: Spent, models: Mapping[str, Model]
) -> tuple[list[ModelQuery], str | None]:
    """The first queries that fit side by side, and why no more do."""
    allowed: list[ModelQuery] = []
    for query in queries:
        limited = replace(
            query,
            tokens_left=_left(budget.tokens, spent.tokens),
            dollars_left=_left(budget.dollars, spent.dollars),
        )
        model, most = models[query.request.model], Cost()
        if isinstance(model, Priced):
            most = model.worst_case(limited.messages, limited.tokens_left)
        why = why_spent(budget, spent, 0.0) or why_too_dear(budget, spent, most)
        if why is not None:
            return allowed, why
        allowed.append(limited)
        spent = spent.with_ask(most)
    return allowed, None


def _left(limit: Amount | None, used: Amount) -> Amount | None:
    return None if limit is None else limit - used
