"""Any API that litellm speaks; imported only when such a model is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from kernelagent.budget import Cost
from kernelagent.errors import ModelError
from kernelagent.history import Message
from kernelagent.models import Ask, Exhausted, Reply

_MISSING = (
    "this model needs litellm, which is not installed; install the extra: pip install -e '.[llm]'"
)


_IN_FLIGHT = 8
_SHORTEST_ANSWER = 1024
"""Room for a small kernel; what does not leave that much is not asked."""
_USUAL_LIMIT = 16384
"""For models whose limit litellm does not know, where a token budget asks for one."""


class LitellmModel:
    """One model behind litellm; keys come from the environment only, and are never written anywhere."""

    def __init__(self, name: str, *, api_base: str | None = None) -> None:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        try:
            import litellm
        except ImportError as error:
            raise ModelError(_MISSING) from error
        litellm.suppress_debug_info = True
        self._litellm = litellm
        self._name = name
        self._api_base = api_base

    @property
    def name(self) -> str:
        return self._name

    def reply(self, ask: Ask, on_text: Callable[[str], None]) -> Reply | Exhausted:
        """One streamed completion; raises `ModelError` when the endpoint refuses or is gone."""
        messages = [{"role": m.role, "content": m.content} for m in ask.messages]
        try:
            chunks = self._litellm.completion(
                model=self._name,
                messages=messages,
                temperature=ask.request.temperature,
                api_base=self._api_base,
                max_tokens=self._most_output(ask.messages, ask.tokens_left),
                stream=True,
                stream_options={"include_usage": True},
                drop_params=True,
                num_retries=3,
            )
            kept = []
            for chunk in chunks:
                kept.append(chunk)
                on_text(_text_of(chunk))
            whole = self._litellm.stream_chunk_builder(kept, messages=messages)
        except Exception as error:
            # litellm has no common base class: every provider's failure ends the run with one sentence.
            first_line = (str(error).strip().splitlines() or [""])[0]
            raise ModelError(
                f"{self._name} could not be asked: {type(error).__name__}: {first_line[:300]}"
            ) from error
        if whole is None:
            raise ModelError(f"{self._name} sent an empty answer")
        return self._as_reply(whole)

    @property
    def most_in_flight(self) -> int:
        return _IN_FLIGHT

    def worst_case(self, messages: Sequence[Message], tokens_left: int | None) -> Cost:
        """Question and the longest answer; the price is None where litellm knows none."""
        asked = self._tokens_of(messages)
        answered = self._most_output(messages, tokens_left) or self._known_limit()
        if answered is None:
            return Cost(tokens=None, dollars=None)
        try:
            prices = self._litellm.cost_per_token(
                model=self._name, prompt_tokens=asked, completion_tokens=answered
            )
        except Exception:  # noqa: BLE001 - litellm raises various errors for a model without a price
            return Cost(asked + answered, None)
        return Cost(asked + answered, float(sum(prices)))

    def _most_output(self, messages: Sequence[Message], tokens_left: int | None) -> int | None:
        """The answer's limit that is sent along; None, the provider's own, where no budget asks for one."""
        if tokens_left is None:
            return None
        room = max(tokens_left - self._tokens_of(messages), _SHORTEST_ANSWER)
        return min(room, self._known_limit() or _USUAL_LIMIT)

    def _known_limit(self) -> int | None:
        try:
            known = self._litellm.get_model_info(self._name).get("max_output_tokens")
        except Exception:  # noqa: BLE001 - litellm raises bare exceptions for models it does not list
            return None
        return int(known) if known else None

    def _tokens_of(self, messages: Sequence[Message]) -> int:
        listed = [{"role": m.role, "content": m.content} for m in messages]
        return int(self._litellm.token_counter(model=self._name, messages=listed))

    def close(self) -> None:
        """Nothing to release."""

    def _as_reply(self, whole: Any) -> Reply:
        choice = whole.choices[0]
        usage = getattr(whole, "usage", None)
        return Reply(
            text=choice.message.content or "",
            tokens_in=getattr(usage, "prompt_tokens", 0) or 0,
            tokens_out=getattr(usage, "completion_tokens", 0) or 0,
            dollars=self._price(whole),
            finish="length" if choice.finish_reason == "length" else "stop",
        )

    def _price(self, whole: Any) -> float | None:
        try:
            return float(self._litellm.completion_cost(completion_response=whole, model=self._name))
        except Exception:  # noqa: BLE001 - litellm raises various errors for a model without a price
            return None


def _text_of(chunk: Any) -> str:
    choices = getattr(chunk, "choices", None)
    return (choices[0].delta.content or "") if choices else ""
