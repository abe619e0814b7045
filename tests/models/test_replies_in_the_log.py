"""Session and endpoint together: what is in the log while a reply arrives, and after it broke off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.errors import ModelError
from kernelagent.domain.events import (
    Event,
    Remarked,
    ReplyProgressed,
    ReplyReceived,
    TurnStarted,
    TurnVoid,
)
from kernelagent.domain.history import History, TurnRequest
from kernelagent.loop.loop_state import Earlier
from kernelagent.loop.session import Session
from kernelagent.models.litellm_model import LitellmModel, Surroundings
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from kernelagent.storage.run_state import RunState, fold, to_continue
from kernelagent.strategies import Strategy
from kernelagent.strategies.sequential import Sequential
from tests.evaluations import DEVICE, FACTS, Recorded, accepted, reply_with
from tests.models.fault_server import MODEL, Answer, FaultServer, Rules, failing, mid

NAME = f"openai/{MODEL}"
LONG = "First the plan. " * 40 + "\n\n" + reply_with(1) + "These are the reasons. " * 40
NEW = Earlier()
EIGHT = Recorded([accepted(1.0 + number / 10) for number in range(8)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-the-fault-server")
    return RunFolder.create(tmp_path / "runs", "toy", now=0.0)


def ticking(step_s: float) -> Callable[[], float]:
    """A clock on which each look takes so long."""
    now = [0.0]

    def clock() -> float:
        now[0] += step_s
        return now[0]

    return clock


def session_at(
    server: FaultServer,
    folder: RunFolder,
    *,
    turns: int,
    strategy: Strategy | None = None,
    log: EventLog | None = None,
    earlier: Earlier = NEW,
) -> Session:
    around = Surroundings(sleep=lambda _: None)
    return Session(
        facts=FACTS,
        device=DEVICE,
        strategy=strategy or Sequential((NAME,)),
        models={NAME: LitellmModel(NAME, api_base=server.url, surroundings=around)},
        evaluator=EIGHT,
        budget=Budget(turns=turns),
        publish=(log or EventLog(folder)).publish,
        clock=ticking(0.1),
        keep_prompt=folder.keep_prompt,
        keep_candidate=folder.keep_candidate,
        earlier=earlier,
    )


def events_of(folder: RunFolder) -> list[Event]:
    return [logged.event for logged in read_events(folder.log)]


@pytest.mark.long
def test_text_is_in_the_log_while_it_arrives_after_the_turn_has_begun(folder: RunFolder) -> None:
    with FaultServer([Answer(LONG)]) as server:
        session_at(server, folder, turns=1).run()
    events = events_of(folder)
    kinds = [type(event) for event in events]
    assert kinds.count(TurnStarted) == 1
    first = kinds.index(ReplyProgressed)
    assert kinds.index(TurnStarted) < first < kinds.index(ReplyReceived)
    pieces = [event for event in events if isinstance(event, ReplyProgressed)]
    assert len(pieces) > 3
    assert LONG.startswith("".join(piece.text for piece in pieces))
    assert pieces[-1].characters == sum(len(piece.text) for piece in pieces)


@pytest.mark.long
@pytest.mark.parametrize(
    ("share", "kept"), [(0.9, True), (0.05, False)], ids=["a whole candidate", "less"]
)
def test_after_a_kill_in_mid_reply_a_whole_candidate_is_taken_up_and_nothing_less(
    folder: RunFolder, share: float, kept: bool
) -> None:
    with FaultServer([Answer(LONG), Answer(reply_with(2))]) as server:
        with closing(EventLog(folder)) as log:
            session_at(server, folder, turns=1, log=log).run()
        lines = folder.log.read_bytes().splitlines(keepends=True)
        events = events_of(folder)
        pieces = [i for i, event in enumerate(events) if isinstance(event, ReplyProgressed)]
        last = pieces[int(len(pieces) * share)]
        folder.log.write_bytes(b"".join(lines[: last + 1]))

        history, begun = to_continue(fold(read_events(folder.log)))
        assert [item.answered for item in begun] == [kept]
        earlier = Earlier(RunState(history=history), begun, folder.kept_prompt)
        session = session_at(server, folder, turns=1, earlier=earlier)
        session.run()
        assert len(server.asks) == 2 - kept
    after = events_of(folder)
    received = [event for event in after if isinstance(event, ReplyReceived)]
    assert [event.finish for event in received] == (["lost"] if kept else ["stop"])
    assert received[0].tokens_out > 0
    assert [turn.accepted for turn in fold(read_events(folder.log)).history.turns] == [True]
    assert fold(read_events(folder.log)).history == session.history


def test_a_reply_that_broke_off_is_void_in_words_that_say_so_also_when_the_log_is_read(
    folder: RunFolder,
) -> None:
    with FaultServer([mid(Answer(reply_with(1)), "drop", 0.5), Answer(reply_with(2))]) as server:
        session = session_at(server, folder, turns=2)
        session.run()
    void = [event for event in events_of(folder) if isinstance(event, TurnVoid)]
    assert [event.turn for event in void] == [0]
    assert "connection was lost" in void[0].why
    assert fold(read_events(folder.log)).history == session.history
    assert "connection was lost" in server.asks[1].body["messages"][-1]["content"]


@pytest.mark.long
def test_a_window_that_is_too_long_shrinks_oldest_first_and_is_not_tried_again(
    folder: RunFolder,
) -> None:
    long = [Answer(reply_with(number) + "Reasons. " * 300) for number in range(6)]
    with FaultServer(long) as server:
        session = session_at(server, folder, turns=1)
        session.run()
        room = sum(len(m["content"]) for m in server.asks[0].body["messages"]) + 4 * 2700
        server.rules = Rules(window=room)
        session.budget = Budget(turns=6)
        session.run()
    refused = [item for item in server.asks if item.taught]
    events = events_of(folder)
    reported = [
        e.message for e in events if isinstance(e, Remarked) and "turns are shown" in e.message
    ]
    started = {event.turn: event for event in events if isinstance(event, TurnStarted)}
    assert len(started) == 6, "a turn that is asked with fewer turns shown begins again"
    assert len(refused) == len(reported) >= 1
    assert len(refused) <= 2, "what was too long once is not sent again"
    for event in started.values():
        window = event.request.window
        assert window == tuple(range(event.turn))[-len(window) :] if window else True


def test_a_task_that_does_not_fit_at_all_ends_the_run_in_one_sentence(folder: RunFolder) -> None:
    with (
        FaultServer(rules=Rules(window=10)) as server,
        pytest.raises(ModelError, match="does not fit"),
    ):
        session_at(server, folder, turns=2).run()
    assert len(server.asks) == 1


class FourAtOnce:
    """Asks for four first versions side by side, once."""

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        return [] if history.turns else [TurnRequest("write", NAME, trajectory=i) for i in range(4)]


def test_an_ask_that_fails_for_good_costs_no_other_its_reply(folder: RunFolder) -> None:
    plan = [Answer(reply_with(1)), failing(401, "revoked"), *map(Answer, map(reply_with, (2, 3)))]
    with (
        FaultServer(plan) as server,
        pytest.raises(ModelError, match="refuses the key"),
    ):
        session_at(server, folder, turns=4, strategy=FourAtOnce()).run()
    received = [event.text for event in events_of(folder) if isinstance(event, ReplyReceived)]
    assert sorted(received) == sorted(map(reply_with, (1, 2, 3)))
