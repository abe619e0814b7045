"""Any API that litellm speaks; imported only when such a model is asked for.

One ask: what the endpoint takes (`endpoint.capabilities`), the stream (`endpoint.stream`), what it
cost (`endpoint.pricing`); what fails is read by `endpoint.faults` and waited for by `endpoint.waiting`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

from kernelagent.domain.configuration.budget import Cost
from kernelagent.domain.errors import FunctionsRefused, ModelError, PromptTooLong
from kernelagent.domain.history import Message
from kernelagent.models import Calling, Exhausted, Finish, ModelQuery, Reply, in_words, room_in
from kernelagent.models.endpoint import called, offered, stream
from kernelagent.models.endpoint.capabilities import Capabilities
from kernelagent.models.endpoint.connection import Connection
from kernelagent.models.endpoint.faults import Fault, StreamFault, fault_of, stated_window
from kernelagent.models.endpoint.pricing import Pricing, Room, Used
from kernelagent.models.endpoint.stream import Arrived
from kernelagent.models.endpoint.waiting import Patience
from kernelagent.storage.secrets import Redactor

_MISSING = (
    "this model needs litellm, which is not installed; install the extra: pip install -e '.[llm]'"
)
_IN_FLIGHT = 8
_VLLM = "hosted_vllm"
_TOLD_AT_LEAST_S = 5.0
"""Shorter waits are not worth a word."""
_FINISHES: dict[str, Finish] = {"length": "length", "content_filter": "refused"}


@dataclass(frozen=True)
class Surroundings:
    """Clocks and limits; a test brings its own."""

    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.time
    patience: Patience = field(default_factory=Patience)
    silence_s: float = 600.0
    """A reply of which nothing more arrives for this long is lost."""


class LitellmModel:
    """One model behind litellm; keys come from the environment or the OS keyring, and stay there."""

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        redact: Redactor | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._litellm = _litellm()
        self._name = name
        self._redact = redact or Redactor()
        self._around = surroundings or Surroundings()
        self._connection = Connection.to(self._litellm, name, api_base, self._redact)
        self._pricing = Pricing(self._litellm, name)
        self._known = Capabilities()
        self._learning = Lock()
        self._price_told = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def most_in_flight(self) -> int:
        return _IN_FLIGHT

    @cached_property
    def prompt_room(self) -> int | None:
        """By litellm's table, or what a vLLM says of itself; None: a refusal will tell."""
        window = self._pricing.known_window()
        if window is None and self._connection.provider == _VLLM:
            base, headers = self._connection.api_base, self._connection.headers()
            window = offered.vllm_window(base, headers, self._connection.model)
        return None if window is None else room_in(window)

    @property
    def calling(self) -> Calling:
        """As functions, unless the endpoint is known to take none."""
        return "functions" if self._functions and self._known.tools else "blocks"

    @cached_property
    def _functions(self) -> bool:
        return self._connection.takes_functions

    def worst_case(self, messages: Sequence[Message], tokens_left: int | None) -> Cost:
        """Question and the longest answer; the price is None where litellm knows none."""
        return self._pricing.worst_case(messages, Room(tokens_left))

    def close(self) -> None:
        """Nothing to release."""

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply | Exhausted:
        """One answer, whatever it takes within patience.

        Raises `PromptTooLong` when the prompt does not fit, `FunctionsRefused` when tools must be offered
        in words, `ModelError` when the endpoint refuses or is gone. Once text has arrived nothing is raised: what came is the reply.
        """
        attempt, waited_s = 0, 0.0
        while True:
            known = self._known
            if ask.calling == "functions" and not known.tools:
                raise FunctionsRefused(f"{self._name} takes no functions to call")
            arrived = Arrived(self._pricing.tokens)
            try:
                finish = self._receive(ask, known, arrived, on_text)
            except Exception as error:  # noqa: BLE001 - litellm's errors have no common base class
                fault = fault_of(error, now_s=self._around.now())
            else:
                return self._as_reply(ask, arrived, finish)
            if arrived.any:
                return self._as_reply(ask, arrived, "lost", fault)
            if fault.kind == "refused":
                return Reply(self._redact(fault.message), finish="refused")
            if fault.kind == "bad_request" and self._learns(known, fault, ask):
                continue
            wait = self._around.patience.wait(fault, attempt, waited_s, ask.turn)
            if wait is None:
                raise self._failure(fault, waited_s)
            if wait >= _TOLD_AT_LEAST_S:
                ask.notify(self._redact(f"{self._name}: {fault.message}; waiting {wait:.0f} s"))
            self._around.sleep(wait)
            attempt, waited_s = attempt + 1, waited_s + wait

    def _receive(
        self, ask: ModelQuery, known: Capabilities, arrived: Arrived, on_text: Callable[[str], None]
    ) -> Finish:
        """Fill `arrived`; raises whatever the connection raises."""
        room = Room(ask.tokens_left, ask.dollars_left)
        words = in_words(ask)
        parameters = known.parameters(
            temperature=ask.request.temperature, longest=self._pricing.most_output(words, room)
        )
        messages: list[dict[str, Any]] = [*known.messages(words)]
        if ask.calling == "functions" and ask.tools is not None:
            parameters |= called.offered(ask.tools.offered, used_up=ask.tools.used_up)
            messages = [*known.messages(ask.messages), *called.messages_of(ask.rounds)]
        answer = self._connection.ask(messages, parameters, timeout_s=self._around.silence_s)
        if not known.stream:
            arrived.take(stream.piece_of_whole(answer))
            on_text("".join(arrived.texts))
        else:
            spends = self._pricing.spends(words, room)
            try:
                for piece in stream.pieces_of(answer):
                    arrived.take(piece)
                    if piece.text:
                        on_text(piece.text)
                    if spends(arrived.tokens):
                        return "budget"
            finally:
                stream.close(answer)
        if arrived.finish is None:
            raise StreamFault("the stream ended without the end of the reply")
        return _FINISHES.get(arrived.finish, "stop")

    def _learns(self, used: Capabilities, fault: Fault, ask: ModelQuery) -> bool:
        """True when there is another way to ask; asks side by side learn together."""
        with self._learning:
            if self._known != used:
                return True
            lesson = used.without(fault.message) or used.plainest()
            if lesson is None:
                return False
            self._known, learnt = lesson
        ask.notify(f"{self._name} {learnt}; remembered for this run")
        return True

    def _as_reply(
        self, ask: ModelQuery, arrived: Arrived, finish: Finish, fault: Fault | None = None
    ) -> Reply:
        text, thinking = arrived.parts()
        used = self._pricing.used(arrived, in_words(ask))
        return Reply(
            text=self._redact(text),
            tokens_in=used.tokens_in,
            tokens_out=used.tokens_out,
            dollars=used.dollars,
            finish=finish,
            thinking=self._redact(thinking),
            remark=self._remark(used, fault),
            calls=arrived.calls if finish == "stop" else (),
        )

    def _remark(self, used: Used, fault: Fault | None) -> str | None:
        parts = []
        if fault is not None:
            message = self._redact(fault.message)
            parts.append(f"{self._name}: the reply broke off ({message}); what had arrived is kept")
        if used.dollars is None and not self._price_told:
            self._price_told = True
            parts.append(
                f"the price of {self._name} is unknown, so dollars are not counted; "
                f"--budget-tokens limits this run"
            )
        return ". ".join(parts) or None

    def _failure(self, fault: Fault, waited_s: float) -> ModelError:
        message, where = self._redact(fault.message), self._connection.where
        match fault.kind:
            case "too_long":
                return PromptTooLong(
                    f"the prompt does not fit into {self._name}: {message}",
                    window=stated_window(message),
                )
            case "key":
                wanted = " or ".join(self._connection.key_names) or "the provider's key"
                why = f"{where} refuses the key: {message}; set {wanted} in the environment"
            case "quota":
                why = f"{where} has no credit left for this key: {message}"
            case "name":
                offers = offered.offered(
                    self._litellm,
                    self._connection.model,
                    self._connection.provider,
                    self._connection.api_base,
                    self._connection.headers(),
                )
                why = f"{where} has no such model ({message}); {self._redact(offers)}"
            case "unreachable":
                why = f"nothing answers at {where}; is the server running, and is --api-base right?"
            case "rate_limited" | "server" | "timeout" if waited_s or fault.retry_after_s:
                asked = fault.retry_after_s
                more = f", and {where} asks for {asked:.0f} s more" if asked else ""
                why = f"{message} (waited {waited_s:.0f} s{more})"
            case _:
                why = message
        return ModelError(f"{self._name} could not be asked: {why}; --resume goes on with the run")


def _litellm() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm
    except ImportError as error:
        raise ModelError(_MISSING) from error
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.turn_off_message_logging = True
    litellm.disable_streaming_logging = True
    # Tokenizers would be fetched from a hub; an estimate will do.
    litellm.disable_hf_tokenizer_download = True
    return litellm
