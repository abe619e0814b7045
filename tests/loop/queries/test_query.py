from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock

import pytest

from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.errors import PromptTooLong
from kernelagent.domain.events import Event, Remarked, TurnStarted
from kernelagent.domain.history import History, Message, Turn, TurnRequest
from kernelagent.loop.queries.query import QueryRunner
from kernelagent.models import ModelQuery, Reply, room_in
from kernelagent.models.endpoint.faults import stated_window
from kernelagent.prompts import prompt_tokens
from tests.evaluations import DEVICE, FACTS, accepted, reply_with

PROSE = "It reads every row once and keeps it in registers. " * 30


class Reader:
    """Reads prompts up to so many tokens and refuses longer ones, in words of its own."""

    name = "reader"

    def __init__(self, takes: int, *, says: int | None = None, knows: int | None = None) -> None:
        self._takes, self._says, self.prompt_room = takes, says, knows
        self.asked: list[int] = []

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply:
        self.asked.append(prompt_tokens(ask.messages))
        if self.asked[-1] > self._takes:
            raise PromptTooLong("that is too long", window=self._says)
        self.read = ask.messages
        return Reply(reply_with(99))

    def close(self) -> None:
        """Nothing to release."""


def history_of(turns: int) -> History:
    history = History()
    for index in range(turns):
        reply = reply_with(index) + PROSE
        request = TurnRequest("optimise", "reader", window=tuple(range(index)))
        parsed = parse_reply(reply)
        assert isinstance(parsed, Candidate)
        turn = Turn(
            index,
            request,
            reply,
            candidate=parsed,
            evaluation=accepted(1.0 + index),
            feedback="Faster.",
        )
        history = history.with_turn(turn)
    return history


def asking_for(model: Reader, events: list[Event]) -> QueryRunner:
    kept: dict[int, Sequence[Message]] = {}
    return QueryRunner(
        facts=FACTS,
        device=DEVICE,
        models={"reader": model},
        publish=events.append,
        keep_prompt=kept.__setitem__,
        clock=lambda: 0.0,
        one_at_a_time=RLock(),
    )


def ask_with(history: History, added: str = "") -> ModelQuery:
    window = tuple(turn.index for turn in history.turns)
    return ModelQuery(
        len(window), TurnRequest("optimise", "reader", None, window), (), history, added=added
    )


def test_a_window_that_is_known_is_kept_to_before_anything_is_sent() -> None:
    events: list[Event] = []
    model = Reader(takes=3000, knows=3000)
    asking = asking_for(model, events)
    ask = asking.rendered(ask_with(history_of(6)))
    asking.begin([ask])
    asking.ask(ask)
    assert len(model.asked) == 1
    assert model.asked[0] <= 3000
    (started,) = [event for event in events if isinstance(event, TurnStarted)]
    assert started.request.window == ask.request.window
    assert 0 not in started.request.window
    assert 5 in started.request.window
    (reported,) = [event.message for event in events if isinstance(event, Remarked)]
    assert "left out to fit reader: turn 0, turn 1" in reported


@pytest.mark.parametrize("says", [None, 3400])
def test_after_a_refusal_the_prompt_is_shorter_and_the_users_words_are_still_in_it(
    says: int | None,
) -> None:
    events: list[Event] = []
    model = Reader(takes=2700, says=says)
    asking = asking_for(model, events)
    ask = asking.rendered(ask_with(history_of(6), added="The user says: load each row once."))
    asking.begin([ask])
    turn = asking.ask(ask)
    assert isinstance(turn, Turn)
    assert len(model.asked) >= 2
    assert model.asked == sorted(model.asked, reverse=True)
    assert model.read[-1].content.endswith("load each row once.")
    again = len(model.asked)
    asking.ask(asking.rendered(ask_with(history_of(7))))
    assert len(model.asked) == again + 1, "what was too long once is not sent again"


def test_what_can_never_fit_is_said_after_one_ask_where_the_endpoint_names_its_window() -> None:
    model = Reader(takes=0, says=20)
    asking = asking_for(model, [])
    with pytest.raises(PromptTooLong, match="nothing more can be left out"):
        asking.ask(asking.rendered(ask_with(history_of(2))))
    assert len(model.asked) == 1


def test_an_endpoint_that_refuses_everything_is_not_asked_for_ever() -> None:
    model = Reader(takes=0)
    asking = asking_for(model, [])
    with pytest.raises(PromptTooLong, match="nothing more can be left out"):
        asking.ask(asking.rendered(ask_with(history_of(6))))
    assert len(model.asked) < 12


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("This model's maximum context length is 4096 tokens. However, you requested 5000", 4096),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("exceeds the available context size (8,192 tokens)", 8192),
        ("the prompt is too long", None),
    ],
)
def test_the_window_that_a_refusal_names_is_read(message: str, window: int | None) -> None:
    assert stated_window(message) == window


def test_a_small_window_keeps_a_quarter_for_the_answer_and_a_large_one_some_kernels() -> None:
    assert room_in(4096) == 3072
    assert room_in(200_000) == 200_000 - 8192
