"""Several asks in flight: nothing paid for is lost, and the order of arrival changes nothing."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest

from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.errors import ModelError
from kernelagent.domain.events import Evaluated, ReplyReceived
from kernelagent.domain.history import TurnRequest
from kernelagent.loop.session import Session
from kernelagent.models import Reply
from kernelagent.strategies.best_of_n import BestOfN
from tests.evaluations import DEVICE, FACTS, Recorded, accepted, rejected, reply_with

VERDICTS = [accepted(1.1), rejected(), accepted(1.5), accepted(1.3)]


@dataclass
class Slow:
    """An API that answers each turn after a time of its own, and keeps how many it had at once."""

    delays: list[float]
    fails: int | None = None
    name: str = "slow"
    most_in_flight: int = 8
    at_once: int = 0
    busiest: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, ask, on_text):
        with self.lock:
            self.at_once += 1
            self.busiest = max(self.busiest, self.at_once)
        time.sleep(self.delays[ask.turn])
        with self.lock:
            self.at_once -= 1
        if ask.turn == self.fails:
            raise ModelError("the endpoint is gone")
        return Reply(reply_with(ask.turn), tokens_in=10, tokens_out=5)

    def close(self):
        """Nothing to release."""


def session_of(model, strategy=None, stop_asked=lambda: False):
    events = []
    session = Session(
        facts=FACTS,
        device=DEVICE,
        strategy=strategy or BestOfN((model.name,), n=4),
        models={model.name: model},
        evaluator=Recorded(VERDICTS),
        budget=Budget(turns=4),
        publish=events.append,
        clock=lambda: 0.0,
        keep_prompt=lambda *_: None,
        keep_candidate=lambda *_: None,
        stop_asked=stop_asked,
    )
    return session, events


@dataclass(frozen=True)
class AllAtOnce:
    """Four independent samples in one request."""

    models: tuple[str, ...]

    def next_turns(self, history):
        if history.turns:
            return ()
        return [TurnRequest("write", self.models[0], trajectory=i) for i in range(4)]


def test_asks_overlap_and_the_order_of_arrival_changes_nothing():
    early = Slow([0.0, 0.05, 0.1, 0.15])
    late = Slow([0.15, 0.1, 0.05, 0.0])
    histories = []
    for model in (early, late):
        session, events = session_of(model, AllAtOnce((model.name,)))
        session.run()
        histories.append(session.history)
        assert model.busiest > 1
        assert sorted(e.turn for e in events if isinstance(e, ReplyReceived)) == [0, 1, 2, 3]
    assert histories[0] == histories[1]
    assert histories[0].best is not None
    assert histories[0].best.index == 2


def test_one_ask_that_fails_costs_no_other_reply():
    model = Slow([0.0, 0.0, 0.05, 0.05], fails=1)
    session, events = session_of(model, AllAtOnce((model.name,)))
    with pytest.raises(ModelError, match="the endpoint is gone"):
        session.run()
    assert sorted(e.turn for e in events if isinstance(e, ReplyReceived)) == [0, 2, 3]
    assert [turn.index for turn in session.history.finished] == [0, 2, 3]


def test_replies_that_arrive_after_a_stop_are_kept_for_later():
    model = Slow([0.0, 0.05, 0.05, 0.05])

    def one_is_judged():
        return any(isinstance(event, Evaluated) for event in events)

    session, events = session_of(model, AllAtOnce((model.name,)), one_is_judged)
    assert session.run() == "stopped by the user"
    assert len([e for e in events if isinstance(e, ReplyReceived)]) == 4
    assert len(session.history.finished) == 1


def test_no_more_asks_are_in_flight_than_the_model_takes():
    model = Slow([0.03] * 4, most_in_flight=2)
    session_of(model, AllAtOnce((model.name,)))[0].run()
    assert model.busiest == 2
