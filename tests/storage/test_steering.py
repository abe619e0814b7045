from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kernelagent.cli.commands.runs import command_of, steer
from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import (
    ProblemDescribed,
    Remarked,
    RunResumed,
    RunStarted,
    Steered,
    TurnStarted,
)
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.loop_state import Earlier
from kernelagent.loop.session import Session
from kernelagent.models import Exhausted, ModelQuery, Reply
from kernelagent.models.kinds import why_unheard
from kernelagent.storage.inbox import Inbox, is_going_on, send
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from kernelagent.storage.run_state import RunState, fold
from kernelagent.storage.steering import Command
from kernelagent.strategies.best_of_n import BestOfN
from kernelagent.strategies.sequential import Sequential
from tests.evaluations import DEVICE, FACTS, Recorded, Scripted, accepted, rejected, reply_with

VERDICTS = [accepted(1.5), accepted(1.2), rejected(), accepted(1.1), accepted(1.3), accepted(1.0)]


@dataclass
class Steering(Scripted):
    """A scripted model during whose answers the user sends commands."""

    says: Callable[[int], None] = lambda _: None

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply | Exhausted:
        answer = super().reply(ask, on_text)
        self.says(ask.turn)
        return answer


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / ".kernelagent" / "runs", "toy", now=0.0)


def commands_at(folder: RunFolder, sent: dict[int, list[Command]]) -> Callable[[int], None]:
    def say(turn: int) -> None:
        for command in sent.get(turn, []):
            Inbox.of(folder).put(command)

    return say


def run(
    folder: RunFolder,
    sent: dict[int, list[Command]],
    *,
    turns: int = 6,
    state: RunState | None = None,
    wait: Callable[[float], object] = lambda _: None,
    wide: bool = False,
    name: str = "scripted",
) -> tuple[Steering, str, list[object]]:
    """A run that is told `sent[n]` while turn n is answered."""
    state = state or RunState()
    replies = [reply_with(n) for n in range(len(VERDICTS))]
    model = Steering(replies, name=name, says=commands_at(folder, sent))
    log = EventLog(folder)
    if state.run:
        log.publish(RunResumed())
    else:
        log.publish(RunStarted(folder.id, ProblemSpec(path="toy.py"), {}, {}))
        log.publish(ProblemDescribed(FACTS, DEVICE, "none"))
    names = (model.name,)
    session = Session(
        facts=FACTS,
        device=DEVICE,
        strategy=BestOfN(names) if wide else Sequential(names),
        models={model.name: model},
        evaluator=Recorded(VERDICTS),
        budget=Budget(turns=turns),
        publish=log.publish,
        clock=lambda: 0.0,
        keep_prompt=folder.keep_prompt,
        keep_candidate=folder.keep_candidate,
        commands=Inbox.of(folder),
        wait=wait,
        earlier=Earlier.of(replace(state, elapsed_s=0.0), folder.kept_prompt),
    )
    why = session.run()
    log.close()
    assert fold(read_events(folder.log)).steering == session.state.steering
    return model, why, [logged.event for logged in read_events(folder.log)]


def acts(events: list[object]) -> list[tuple[str, str | None]]:
    return [(e.act, e.refused) for e in events if isinstance(e, Steered)]


def last_words(ask: ModelQuery) -> str:
    return ask.messages[-1].content


def test_a_hint_is_told_once_and_a_ban_from_then_on(folder: RunFolder) -> None:
    message = {0: [Command("hint", "load rows once"), Command("ban", "atomics")]}
    model, _, _ = run(folder, message, turns=4)
    assert ["load rows once" in last_words(ask) for ask in model.seen] == [
        False,
        True,
        False,
        False,
    ]
    assert ["- atomics" in last_words(ask) for ask in model.seen] == [False, True, True, True]


def test_a_pinned_turn_is_the_parent_until_it_is_let_go(folder: RunFolder) -> None:
    message = {1: [Command("pin", turn=0)], 3: [Command("unpin")]}
    _, _, events = run(folder, message, turns=6)
    begun = [e.request for e in events if isinstance(e, TurnStarted)]
    assert [request.parent for request in begun] == [None, 0, 0, 0, 3, 4]
    assert all(0 in request.window for request in begun[1:])


def test_a_pin_changes_what_is_asked_of_the_model(folder: RunFolder) -> None:
    _, _, events = run(folder, {2: [Command("pin", turn=1)]}, turns=4)
    begun = [e.request for e in events if isinstance(e, TurnStarted)]
    assert begun[3].kind == "optimise"


def test_stop_and_emit_end_the_run_with_their_sentence(folder: RunFolder) -> None:
    _, why, events = run(folder, {1: [Command("emit")]})
    assert why == "accepted by the user"
    assert acts(events) == [("emit", None)]
    assert sum(isinstance(e, TurnStarted) for e in events) == 2


def test_a_raised_budget_lets_the_run_go_on(folder: RunFolder) -> None:
    _, why, events = run(folder, {1: [Command("budget", limits={"turns": "+2"})]}, turns=2)
    assert why == "the budget of 4 turns is spent"
    assert sum(isinstance(e, TurnStarted) for e in events) == 4


def test_a_paused_run_waits_until_it_is_resumed(folder: RunFolder) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            Inbox.of(folder).put(Command("resume"))

    _, why, events = run(folder, {0: [Command("pause")]}, turns=3, wait=wait)
    assert len(waited) == 3
    assert acts(events) == [("pause", None), ("resume", None)]
    assert why == "the budget of 3 turns is spent"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (Command("pin", turn=17), "there is no turn 17"),
        (Command("budget", limits={"turns": "1"}), "only raised"),
        (Command("budget", limits={"usd": "+1"}), "no limit of usd"),
        (Command("budget", limits={"turns": "many"}), "write a number"),
        (Command("resume"), "not paused"),
        (Command("unban", "atomics"), "no such direction"),
        (Command("hint", "  "), "without words"),
    ],
    ids=lambda value: value.act if isinstance(value, Command) else "",
)
def test_a_command_that_fits_nothing_is_refused_in_the_log(
    folder: RunFolder, command: Command, why: str
) -> None:
    _, ended, events = run(folder, {0: [command]}, turns=3)
    ((_, refused),) = acts(events)
    assert refused is not None
    assert why in refused
    assert ended == "the budget of 3 turns is spent"


@pytest.mark.parametrize("name", ["compiler", "replay:earlier"])
def test_words_for_a_model_that_reads_no_prompt_are_refused_and_the_rest_is_obeyed(
    folder: RunFolder, name: str
) -> None:
    told = [Command("hint", "load rows once"), Command("ban", "atomics"), Command("pin", turn=0)]
    _, _, events = run(folder, {1: told}, turns=3, name=name)
    (hint, ban, pin) = acts(events)
    assert hint == ("hint", f"{name} reads no prompt: a hint or a ban reaches LLMs only")
    assert ban == ("ban", hint[1])
    assert pin == ("pin", None)


@pytest.mark.parametrize("names", [("files:here",), ("compiler", "openai/gpt-5"), ("mcp",), ()])
def test_one_model_that_reads_its_prompt_is_enough_for_a_hint(names: tuple[str, ...]) -> None:
    assert why_unheard(names) is None


def test_steering_says_at_once_that_nobody_will_read_a_hint(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    log = EventLog(folder)
    asked = {"model": ["compiler"]}
    log.publish(RunStarted(folder.id, ProblemSpec(path="toy.py"), asked, {}))
    words = (str(folder.path), "hint", ["load rows once"], None)
    with pytest.raises(UsageError, match="compiler reads no prompt: a hint or a ban reaches"):
        steer(*words)
    assert Inbox.of(folder).waiting() == ()
    log.publish(RunResumed())
    steer(*words)
    assert len(Inbox.of(folder).waiting()) == 1
    log.close()
    assert "sent to run" in capsys.readouterr().out


def test_nothing_is_emitted_before_a_turn_is_accepted(folder: RunFolder) -> None:
    Inbox.of(folder).put(Command("emit"))
    _, _, events = run(folder, {}, turns=2)
    assert "no turn has been accepted" in str(acts(events)[0][1])


def test_a_file_that_is_no_command_is_told_and_taken_out(folder: RunFolder) -> None:
    inbox = Inbox.of(folder)
    inbox.put(Command("hint", "one"))
    (inbox.path / "0.json").write_text('{"command": {"act": "explode"}}', encoding="utf-8")
    _, _, events = run(folder, {}, turns=1)
    reported = [e.message for e in events if isinstance(e, Remarked)]
    assert ["0.json is no command" in message for message in reported] == [True]
    assert inbox.waiting() == ()


def test_a_command_whose_file_outlived_a_kill_is_taken_once(folder: RunFolder) -> None:
    inbox = Inbox.of(folder)
    inbox.put(Command("hint", "load rows once"))
    (name,) = [path.name for path in inbox.path.glob("*.json")]
    kept = (inbox.path / name).read_bytes()
    run(folder, {}, turns=1)
    (inbox.path / name).write_bytes(kept)
    state = fold(read_events(folder.log))
    model, _, events = run(folder, {}, turns=3, state=state)
    assert acts(events) == [("hint", None)]
    assert not any("load rows once" in last_words(ask) for ask in model.seen)


def test_pins_bans_and_limits_hold_in_a_resumed_run_and_a_pause_does_not(folder: RunFolder) -> None:
    message = {
        1: [
            Command("pin", turn=0),
            Command("ban", "atomics"),
            Command("budget", limits={"turns": "+3"}),
            Command("stop"),
        ]
    }
    _, why, _ = run(folder, message, turns=2)
    assert why == "stopped by the user"
    state = fold(read_events(folder.log))
    model, why, _ = run(folder, {}, turns=2, state=state)
    assert why == "the budget of 5 turns is spent"
    assert [ask.request.parent for ask in model.seen] == [0, 0, 0]
    assert all("- atomics" in last_words(ask) for ask in model.seen)


def test_a_batch_that_was_cut_short_is_told_the_hint_again(folder: RunFolder) -> None:
    Inbox.of(folder).put(Command("hint", "load rows once"))
    _, _, events = run(folder, {}, turns=4, wide=True)
    batch = next(e.batch for e in events if isinstance(e, TurnStarted))
    assert len(batch) > 1
    logged = list(read_events(folder.log))
    first = next(i for i, item in enumerate(logged) if isinstance(item.event, TurnStarted))
    assert fold(logged[: first + 1]).steering.hints == ("load rows once",)
    assert fold(logged[: first + len(batch)]).steering.hints == ()


def test_time_in_which_a_run_is_paused_is_nobodys(folder: RunFolder) -> None:
    log = EventLog(folder, clock=iter([0.5, 1.0, 2.0, 100.0, 101.0]).__next__)
    log.publish(RunStarted(folder.id, ProblemSpec(path="toy.py"), {}, {}))
    log.publish(ProblemDescribed(FACTS, DEVICE, "none"))
    log.publish(Steered("1", "pause"))
    log.publish(Steered("2", "resume"))
    log.publish(Remarked("info", "on"))
    log.close()
    assert fold(read_events(folder.log)).elapsed_s == pytest.approx(2.5)


def test_only_a_run_that_goes_on_can_be_paused_but_any_can_be_given_a_hint(
    folder: RunFolder,
) -> None:
    assert not is_going_on(folder)
    with pytest.raises(UsageError, match="not going on"):
        send(folder, Command("pause"))
    send(folder, Command("hint", "for later"))
    log = EventLog(folder)
    assert is_going_on(folder)
    send(folder, Command("pause"))
    log.close()
    assert [c.act for c in Inbox.of(folder).waiting() if isinstance(c, Command)] == [
        "hint",
        "pause",
    ]


@pytest.mark.parametrize(
    ("act", "words", "command"),
    [
        ("pause", [], Command("pause")),
        ("hint", ["load", "rows once"], Command("hint", "load rows once")),
        ("pin", ["7"], Command("pin", turn=7)),
        ("budget", ["turns=+5", "usd=2"], Command("budget", limits={"turns": "+5", "usd": "2"})),
    ],
)
def test_an_act_reads_as_it_is_typed(act: str, words: list[str], command: Command) -> None:
    assert command_of(act, words) == command


@pytest.mark.parametrize(
    ("act", "words"),
    [("pause", ["now"]), ("hint", []), ("pin", ["x"]), ("budget", ["turns"]), ("explode", [])],
)
def test_an_act_that_says_nothing_is_wrong_usage(act: str, words: list[str]) -> None:
    with pytest.raises(UsageError):
        command_of(act, words)
