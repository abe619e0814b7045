"""One question to a model: its prompt, cut to the model's window, and the reply, logged as it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from kernelagent.domain.errors import FunctionsRefused, PromptTooLong
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.events import Event, Remarked, ReplyProgressed, ReplyReceived, TurnStarted
from kernelagent.domain.history import Message, Turn
from kernelagent.domain.problem import ProblemFacts
from kernelagent.domain.serialization import without_surrogates
from kernelagent.loop.queries.live_text import LiveText
from kernelagent.loop.queries.tool_talk import ToolTalk
from kernelagent.loop.queries.tools import Tools
from kernelagent.models import (
    Calling,
    CallsTools,
    Exhausted,
    Model,
    ModelQuery,
    NotAnswered,
    Reply,
    Windowed,
    in_words,
    room_in,
)
from kernelagent.prompts import (
    FittedPrompt,
    estimate_tokens,
    fit_prompt,
    prompt_hash,
    prompt_tokens,
    prompts_version,
    tells_of_tools,
    tools_text,
)
from kernelagent.storage.secrets import Redactor

_LESS_AFTER_REFUSAL = 0.75
"""The next prompt gets this share of the refused prompt's tokens if the endpoint named no limit."""


@dataclass
class QueryRunner:
    """Asks the models of one run; `publish` puts an event into the log."""

    facts: ProblemFacts
    device: DeviceFacts
    models: Mapping[str, Model]
    publish: Callable[[Event], None]
    keep_prompt: Callable[[int, Sequence[Message]], object]
    clock: Callable[[], float]
    one_at_a_time: AbstractContextManager[object]
    """Held while a batch is begun: asks side by side share the log."""
    on_text: Callable[[str], None] = lambda _: None
    prompts: str = "strong"
    candidates: int = 1
    """How many files a reply may hold."""
    redact: Redactor = field(default_factory=Redactor)
    tools: Tools | None = None
    """What writers may call before they hand in a candidate; None: nothing."""
    _refused: dict[str, int] = field(default_factory=dict)
    """Prompt limit in tokens of each model, learnt from the endpoint's refusals."""

    def rendered(self, ask: ModelQuery) -> ModelQuery:
        """`ask` with its prompt, cut to fit; the shortest is sent even if it seems too long, as token counts are estimates."""
        ask = replace(ask, calling=self._calling(ask.request.model))
        room = self._room(ask.request.model)
        if room is not None:
            room -= estimate_tokens(ask.added) + prompt_tokens(in_words(replace(ask, messages=())))
        try:
            fitted = self._fitted(ask, room)
        except PromptTooLong as error:
            fitted = self._fitted(ask, error.shortest)
        message = _with_words(fitted.messages, ask.added)
        return replace(
            ask,
            request=replace(ask.request, window=fitted.shown) if fitted.cut else ask.request,
            messages=tuple(replace(m, content=self.redact(m.content)) for m in message),
            cut=fitted.cut,
            notify=self.notify,
        )

    def begin(self, asks: Sequence[ModelQuery]) -> None:
        """Log a whole batch before any of it is asked, so that it can be asked again as it was."""
        batch = tuple(ask.turn for ask in asks)
        for ask in asks:
            self.keep_prompt(ask.turn, ask.messages)
            asked = prompt_hash(ask.messages)
            self.publish(
                TurnStarted(ask.turn, ask.request, asked, prompts_version(self.prompts), batch)
            )
            if ask.cut:
                left_out = ", ".join(ask.cut)
                self.notify(f"turn {ask.turn}: left out to fit {ask.request.model}: {left_out}")

    def ask(self, ask: ModelQuery) -> Turn | Exhausted | NotAnswered:
        """Ask the model; its reply is logged before it is used. Raises `ModelError`."""
        began = self.clock()
        talk = ToolTalk(ask if self.tools is None else replace(ask, tools=self.tools.of(ask.turn)))

        def progress(text: str, characters: int) -> None:
            self.publish(ReplyProgressed(ask.turn, text, characters))

        while True:
            on_text = LiveText(progress, self.on_text, self.redact, self.clock)
            try:
                answer = self.models[ask.request.model].reply(talk.ask, on_text)
            except PromptTooLong as error:
                talk.ask = self._shortened(talk.ask, error)
            except FunctionsRefused:
                talk.ask = self._again(talk.ask)
            else:
                if not isinstance(answer, Reply):
                    return answer
                if not talk.answer_calls(answer):
                    return self.logged(talk.ask, talk.reply, self.clock() - began)

    def logged(self, ask: ModelQuery, answer: Reply, seconds: float) -> Turn:
        """The turn that a reply makes, once the log has it."""
        # Remove lone surrogates, which a file cannot hold, so that a resumed run sees the same text.
        text = without_surrogates(self.redact(answer.text))
        self.publish(
            ReplyReceived(
                turn=ask.turn,
                model=ask.request.model,
                text=text,
                tokens_in=answer.tokens_in,
                tokens_out=answer.tokens_out,
                dollars=answer.dollars,
                finish=answer.finish,
                seconds=seconds,
                thinking=self.redact(answer.thinking),
                remark=answer.remark,
            )
        )
        return Turn(ask.turn, ask.request, text, answer.finish)

    def notify(self, message: str) -> None:
        self.publish(Remarked("info", message))

    def _fitted(self, ask: ModelQuery, room: int | None) -> FittedPrompt:
        return fit_prompt(
            self.facts,
            self.device,
            ask.history,
            ask.request,
            max_tokens=room,
            style=self.prompts,
            candidates=self.candidates,
            tools=self._offered_in_words(ask.calling),
        )

    def calling_of(self, ask: ModelQuery) -> Calling | None:
        """How a prompt that was rendered before lets its reply call tools."""
        reported = self._offered_in_words("blocks")
        if reported and any(reported in message.content for message in ask.messages):
            return "blocks"
        calling = self._calling(ask.request.model)
        return calling if calling == "functions" else None

    def _calling(self, name: str) -> Calling | None:
        model = self.models.get(name)
        if self.tools is None or not isinstance(model, CallsTools):
            return None
        calling = model.calling
        return calling if calling != "blocks" or tells_of_tools(self.prompts) else None

    def _offered_in_words(self, calling: Calling | None) -> str:
        if not self.tools or calling != "blocks":
            return ""
        budget = self.tools.budget
        return tools_text(self.tools.offered, budget.calls, budget.seconds)

    def _again(self, ask: ModelQuery) -> ModelQuery:
        """The same question where the endpoint takes no functions: the tools are told of in words."""
        with self.one_at_a_time:
            plain = self.rendered(ask)
            self.begin([plain])
        return plain

    def _room(self, name: str) -> int | None:
        # A trainer answers by itself: there is no model to ask.
        model = self.models.get(name)
        known = model.prompt_room if isinstance(model, Windowed) else None
        rooms = [room for room in (known, self._refused.get(name)) if room is not None]
        return min(rooms, default=None)

    def _shortened(self, ask: ModelQuery, error: PromptTooLong) -> ModelQuery:
        """The same question, shorter; raises `PromptTooLong` when it cannot be."""
        shown = len(ask.request.window)
        with self.one_at_a_time:
            self._refused[ask.request.model] = _learnt(ask, error)
            shorter = self.rendered(ask)
            if not _may_fit(shorter, ask, error):
                raise PromptTooLong(
                    f"{error}; nothing more can be left out: use a model with a larger window, or "
                    f"--submodule for a part of the module"
                ) from error
            left = len(shorter.request.window)
            self.notify(f"turn {ask.turn}: {error}; {left} earlier turns are shown, not {shown}")
            self.begin([shorter])
        return shorter


def _learnt(ask: ModelQuery, error: PromptTooLong) -> int:
    """Tokens that the next prompt may have, always fewer than this one has."""
    less = int(prompt_tokens(ask.messages) * _LESS_AFTER_REFUSAL)
    return less if error.window is None else min(less, room_in(error.window))


def _may_fit(shorter: ModelQuery, refused: ModelQuery, error: PromptTooLong) -> bool:
    tokens = prompt_tokens(shorter.messages)
    within = error.window is None or tokens < error.window
    return within and tokens < prompt_tokens(refused.messages)


def _with_words(messages: tuple[Message, ...], added: str) -> tuple[Message, ...]:
    if not added:
        return messages
    last = messages[-1]
    return (*messages[:-1], replace(last, content=f"{last.content}\n\n{added}"))
