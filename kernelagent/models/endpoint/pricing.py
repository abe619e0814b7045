"""Tokens and dollars: what the provider says it used, else litellm's tables, else said to be unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelagent.domain.configuration.budget import CHARACTERS_PER_TOKEN, Cost
from kernelagent.domain.history import Message
from kernelagent.models.endpoint.stream import Arrived

_SHORTEST_ANSWER = 1024
"""Room for a small kernel; what does not leave that much is not asked."""
_USUAL_LIMIT = 16384
"""For models whose limit litellm does not know, where a budget asks for one."""


@dataclass(frozen=True)
class Room:
    """What the budget leaves for one ask, question and answer together; None: no such limit."""

    tokens: int | None = None
    dollars: float | None = None


@dataclass(frozen=True)
class Used:
    """What one ask has cost."""

    tokens_in: int
    tokens_out: int
    dollars: float | None


@dataclass(frozen=True)
class Pricing:
    """The tables of one model."""

    litellm: Any
    model: str

    def tokens(self, text: str) -> int:
        """Tokens in a text; about four characters each where no tokenizer knows better."""
        try:
            return int(self.litellm.token_counter(model=self.model, text=text))
        except Exception:  # noqa: BLE001 - a tokenizer that fails must not cost a reply
            return len(text) // CHARACTERS_PER_TOKEN

    def tokens_in(self, messages: Sequence[Message]) -> int:
        """Tokens of a question, with the few that each message needs for itself."""
        return sum(self.tokens(message.content) + 4 for message in messages)

    def dollars(self, tokens_in: int, tokens_out: int, cached: int = 0) -> float | None:
        """By litellm's table; None where the model has no price."""
        try:
            prices = self.litellm.cost_per_token(
                model=self.model,
                prompt_tokens=tokens_in,
                completion_tokens=tokens_out,
                cache_read_input_tokens=cached,
            )
        except Exception:  # noqa: BLE001 - litellm raises various errors for a model without a price
            return None
        return float(sum(prices))

    def used(self, arrived: Arrived, messages: Sequence[Message]) -> Used:
        """From the provider's usage; counted here where it gave none."""
        if arrived.usage is None:
            tokens_in, tokens_out = self.tokens_in(messages), arrived.all_tokens()
            return Used(tokens_in, tokens_out, self.dollars(tokens_in, tokens_out))
        usage = arrived.usage
        tokens_in = int(usage.get("prompt_tokens") or 0)
        tokens_out = int(usage.get("completion_tokens") or 0)
        message = usage.get("cost")
        if isinstance(message, int | float):
            return Used(tokens_in, tokens_out, float(message))
        return Used(tokens_in, tokens_out, self.dollars(tokens_in, tokens_out, _cached(usage)))

    def most_output(self, messages: Sequence[Message], room: Room) -> int | None:
        """The longest answer to ask for; None, the provider's own, where no budget asks for one."""
        rooms = []
        tokens_in = self.tokens_in(messages)
        if room.tokens is not None:
            rooms.append(room.tokens - tokens_in)
        affordable = self._affordable(tokens_in, room.dollars)
        if affordable is not None:
            rooms.append(affordable)
        if not rooms:
            return None
        return min(max(min(rooms), _SHORTEST_ANSWER), self.known_limit() or _USUAL_LIMIT)

    def worst_case(self, messages: Sequence[Message], room: Room) -> Cost:
        """Question and the longest answer; None where the price is unknown."""
        answered = self.most_output(messages, room) or self.known_limit()
        if answered is None:
            return Cost(tokens=None, dollars=None)
        asked = self.tokens_in(messages)
        return Cost(asked + answered, self.dollars(asked, answered))

    def spends(self, messages: Sequence[Message], room: Room) -> Callable[[int], bool]:
        """Whether an answer of so many tokens is more than the budget leaves."""
        tokens_in = self.tokens_in(messages)
        limits = [self._affordable(tokens_in, room.dollars)]
        if room.tokens is not None:
            limits.append(room.tokens - tokens_in)
        known = [limit for limit in limits if limit is not None]
        most = max(min(known), 0) if known else None
        return lambda tokens_out: most is not None and tokens_out > most

    def known_limit(self) -> int | None:
        """The longest answer by litellm's table."""
        return self._listed("max_output_tokens")

    def known_window(self) -> int | None:
        """The longest prompt by litellm's table; with some models the answer counts as well."""
        return self._listed("max_input_tokens")

    def _listed(self, what: str) -> int | None:
        try:
            known = self.litellm.get_model_info(self.model).get(what)
        except Exception:  # noqa: BLE001 - litellm raises bare exceptions for models it does not list
            return None
        return int(known) if known else None

    def _affordable(self, tokens_in: int, dollars: float | None) -> int | None:
        if dollars is None:
            return None
        asked, thousand = self.dollars(tokens_in, 0), self.dollars(tokens_in, 1000)
        if asked is None or thousand is None or thousand <= asked:
            return None
        return int(1000 * (dollars - asked) / (thousand - asked))


def _cached(usage: Mapping[str, Any]) -> int:
    details = usage.get("prompt_tokens_details")
    if isinstance(details, Mapping):
        return int(details.get("cached_tokens") or 0)
    return 0
