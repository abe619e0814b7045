"""What a run with an LLM will cost and take, said before it starts; from prices, not from this run."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from kernelagent.domain.configuration.budget import CHARACTERS_PER_TOKEN
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.models.kinds import stays_on_this_machine

FIXED_TOKENS = 3_500
"""Of a prompt besides the module and the history: instructions, device, worked example."""
HISTORY_TOKENS = 4_000
"""Of the earlier turns a prompt shows, on average over a run."""
ANSWER_TOKENS = 6_000
"""Of an answer: thoughts, and some hundred lines."""
TURN_S = (20.0, 90.0)
"""An answer and its verdict: a fast model without a GPU, and a slow one that thinks."""


def expectation(config: RunConfig, characters: int) -> str:
    """One line: dollars by litellm's price table and minutes, each called an expectation.

    `characters`: the length of the module's source.
    """
    turns = config.budget.turns
    if turns is None:
        return "Expected: until another limit is reached; there is none on turns."
    low, high = (turns * seconds / 60 for seconds in TURN_S)
    time = f"{low:.0f} to {high:.0f} minutes for {turns} turns, or fewer"
    prices = [_price(n) for n in config.model if not stays_on_this_machine(n)]
    known = [price for price in prices if price is not None]
    if not known or len(known) < len(prices):
        return f"Expected: {time}; the price is not known here, --budget-tokens limits it."
    asked = FIXED_TOKENS + HISTORY_TOKENS + characters // CHARACTERS_PER_TOKEN
    dollars = turns * sum(i * asked + o * ANSWER_TOKENS for i, o in known) / len(known)
    capped = config.budget.dollars is not None and dollars > config.budget.dollars
    limit = f", of which {config.budget.dollars:g} are allowed" if capped else ""
    return f"Expected: about {dollars:.2f} dollars{limit}, {time}."


def _price(name: str) -> tuple[float, float] | None:
    """Dollars for a token in and a token out; None where the table has none."""
    result = importlib.util.find_spec("litellm")
    if result is None or result.origin is None:
        return None
    table_file = Path(result.origin).with_name("model_prices_and_context_window_backup.json")
    try:
        table = json.loads(table_file.read_bytes())
        row = table.get(name) or table.get(name.partition("/")[2]) or {}
        return float(row["input_cost_per_token"]), float(row["output_cost_per_token"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
