"""What writes the kernels: an LLM behind an API, a person, a recording, or the built-in policy.

Here are the protocol of a model and its records; `kinds` knows which names there are and makes a model of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from kernelagent.domain.configuration.budget import Cost
from kernelagent.domain.configuration.model_options import VllmOptions
from kernelagent.domain.events import Event
from kernelagent.domain.history import History, Message, TurnRequest
from kernelagent.domain.problem import ProblemFacts, ProblemSpec
from kernelagent.domain.replies.tool_calls import ToolAnswer, ToolCall, ToolRound
from kernelagent.domain.replies.tool_registry import Tool
from kernelagent.storage.secrets import Redactor
from kernelagent.tools.gpu_lock import Gpu

Finish = Literal["stop", "length", "refused", "lost", "budget"]
"""How a reply ended: complete, at the token limit, refused, connection lost, or budget spent."""
Calling = Literal["functions", "blocks"]
"""How a reply calls tools: as the API's functions, or in fenced blocks of its text."""
_ROOM_TO_ANSWER = 8192
"""Tokens kept free for the answer in a large window: some kernels, and the thoughts before them."""


class TurnTools(Protocol):
    """What a writer may call while a turn waits for its candidate; safe to ask from any thread."""

    @property
    def offered(self) -> tuple[Tool, ...]: ...

    @property
    def used_up(self) -> bool:
        """Whether every further call is refused."""
        ...

    def call(self, call: ToolCall, words: str = "") -> ToolAnswer:
        """The answer in words; `words` is what was written with the call, for the log."""
        ...


@dataclass(frozen=True)
class ModelQuery:
    """One question to a model."""

    turn: int
    request: TurnRequest
    messages: tuple[Message, ...]
    history: History
    """Everything so far; an LLM sees only `messages`."""
    tokens_left: int | None = None
    """What the budget leaves for question and answer together; None: no such limit."""
    dollars_left: float | None = None
    added: str = ""
    """What the user has to say for this turn; it stands at the end of the prompt."""
    cut: tuple[str, ...] = ()
    """What was left out of `messages` to fit them into the model's window."""
    tools: TurnTools | None = field(default=None, compare=False)
    """What can be called before a candidate is handed in; None: the run offers nothing."""
    calling: Calling | None = None
    """How the answer may call them; None: it cannot, though a model may ask `tools` by itself."""
    rounds: tuple[ToolRound, ...] = ()
    """The calls of this turn so far, with their answers; they follow upon `messages`."""
    notify: Callable[[str], None] = field(default=lambda _: None, compare=False)
    """For what the user should know while the answer is still on its way."""


@dataclass(frozen=True)
class Reply:
    """What a model answered, and what it cost."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float | None = 0.0
    """None: the price is unknown."""
    finish: Finish = "stop"
    thinking: str = ""
    """What a reasoning model thought before it answered; kept, and never parsed as code."""
    remark: str | None = None
    """Something the user should know about this answer."""
    calls: tuple[ToolCall, ...] = ()
    """The tools that it calls; with any, it hands in no candidate and is asked again."""


@dataclass(frozen=True)
class Exhausted:
    """The model has nothing left to try; `message` says what it tried last."""

    message: str


@dataclass(frozen=True)
class NotAnswered:
    """The run was stopped before there was an answer: no turn, nothing spent, asked again on resume."""

    why: str


class Model(Protocol):
    """Anything that answers; raises `ModelError` when it cannot be asked at all."""

    @property
    def name(self) -> str: ...

    def reply(
        self, ask: ModelQuery, on_text: Callable[[str], None]
    ) -> Reply | Exhausted | NotAnswered:
        """Answer; `on_text` receives the text as it arrives where the model streams."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Priced(Protocol):
    """A model whose asks cost something, and which can say how much at most."""

    def worst_case(self, messages: Sequence[Message], tokens_left: int | None) -> Cost:
        """Question and the longest answer it may give, within `tokens_left`."""
        ...


@runtime_checkable
class Concurrent(Protocol):
    """A model that can be asked several things at once, from several threads."""

    @property
    def most_in_flight(self) -> int: ...


@runtime_checkable
class CallsTools(Protocol):
    """A model whose replies may call tools; it is asked again with their answers (`ModelQuery.rounds`)."""

    @property
    def calling(self) -> Calling | None:
        """None: not now."""
        ...


@runtime_checkable
class Windowed(Protocol):
    """A model that may know how long a prompt can be."""

    @property
    def prompt_room(self) -> int | None:
        """Tokens of the longest prompt that leaves room for an answer; None: not known."""
        ...


def in_words(ask: ModelQuery) -> tuple[Message, ...]:
    """The messages with the calls so far as ordinary ones: the writer's words, then the answers."""
    rounds = [
        message
        for item in ask.rounds
        for message in (
            Message("assistant", item.said or "(calls tools)"),
            Message("user", "\n\n".join(item.answers)),
        )
    ]
    return (*ask.messages, *rounds)


def room_in(window: int) -> int:
    """Tokens for the prompt where question and answer share a window."""
    return window - min(window // 4, _ROOM_TO_ANSWER)


class Begun(Protocol):
    """What a model needs and takes long to start."""

    def close(self) -> None:
        """End it; it may be closed already."""
        ...


@dataclass(frozen=True)
class ModelSettings:
    """What a model may need to be made."""

    problem: ProblemSpec
    facts: ProblemFacts
    target: str
    device: str
    api_base: str | None = None
    stop_asked: Callable[[], bool] = lambda: False
    """Whether the user wants the run to end; asked by models that wait for somebody."""
    redact: Redactor = field(default_factory=Redactor)
    vllm: VllmOptions = field(default_factory=VllmOptions)
    gpu: Gpu | None = None
    """The GPU that candidates are timed on, which models here must share; None on `virtual`."""
    folder: Path = field(default_factory=Path)
    """Where a server that is started here may leave its log."""
    publish: Callable[[Event], None] = lambda _: None
    begun: Mapping[str, Begun] = field(default_factory=dict)
    """What was started while the problem was read, by the name of a model."""
    memory_limit: str | None = None
    """As `--memory-limit` has it, for a model that runs the user's module itself."""
