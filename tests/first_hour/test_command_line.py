"""The command as a user meets it: what it offers, what it expects, how it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kernelagent.cli.main import app, main
from kernelagent.cli.terminal import completion as cli_words
from kernelagent.cli.terminal.console import Progress
from kernelagent.cli.terminal.interrupt import StopOnInterrupt
from kernelagent.cli.terminal.order import GROUPS
from kernelagent.domain.configuration.config import STRATEGIES, RunConfig
from kernelagent.domain.configuration.judge_settings import GPUS, TARGETS
from kernelagent.domain.events import Event, Logged, RunStarted, TurnStarted, TurnVoid
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.preflight.expectation import expectation
from kernelagent.prompts.wording import Pace
from kernelagent.storage.run_log import resume_with
from kernelagent.strategies import BUILT_IN
from kernelagent.tools.virtual.cost.ceilings import ceilings_for, gpus


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert not ended.value.code
    return capsys.readouterr().out


def test_commands_stand_in_the_order_of_use(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys)
    places = [text.index(f"─ {title} ─") for title in GROUPS]
    assert places == sorted(places)
    assert text.index("│ optimize") < text.index("│ recheck")
    names = {name for group in GROUPS.values() for name in group}
    known = {entry.name or entry.callback.__name__ for entry in app.registered_commands}
    known |= {str(group.name) for group in app.registered_groups}
    assert {name.rstrip("_") for name in known} == names


def test_values_and_defaults_of_strategy_and_target_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = " ".join(shown(capsys, "optimize").replace("│", " ").split())
    assert all(name in text for name in (*BUILT_IN, *TARGETS, *GPUS))
    for default in ("(sm_90)", "(auto with an LLM, else sequential)", "20 turns, and 5 dollars"):
        assert default in text
    assert "--turns <int> [x>=1]" in text
    assert "--tool-seconds <float> [x>=0]" in text


@pytest.mark.long
def test_no_command_calls_a_switch_a_bool_or_a_number_a_range(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in ((), ("optimize",), ("keys",), ("keys", "set"), ("compare",), ("export",)):
        text = shown(capsys, *command)
        assert "--help" in text
        assert "<bool>" not in text
        assert "range>" not in text


def test_what_the_shell_offers_is_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(STRATEGIES) == set(BUILT_IN)
    assert set(GPUS) == set(gpus())
    for target in TARGETS:
        ceilings_for(target)
    assert cli_words.among(STRATEGIES)("b") == ["best-of-n", "bandit"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".kernelagent" / "runs" / "20260101-run").mkdir(parents=True)
    assert cli_words.runs("2026") == ["20260101-run"]


_PROGRAM = "import sys; sys.argv[0] = 'kernelagent'; from kernelagent.cli.main import main; main()"


@pytest.mark.long
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_exists_for_the_shell(shell: str) -> None:
    variables = os.environ | {"_KERNELAGENT_COMPLETE": f"source_{shell}"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=variables,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "KERNELAGENT_COMPLETE" in done.stdout


def test_what_a_run_will_cost_is_said_before_it_starts() -> None:
    priced = expectation(RunConfig(model=("openai/gpt-5",)), 2_000)
    assert priced.startswith("Expected: about ")
    assert "dollars" in priced
    assert "for 20 turns" in priced
    unknown = expectation(RunConfig(model=("my/model",), turns=3), 2_000)
    assert "the price is not known here" in unknown
    assert "for 3 turns" in unknown


def test_progress_says_how_much_is_left() -> None:
    pace = Pace()
    request = TurnRequest(parent=None, window=(), kind="draft", model="m")

    def see(at: float, event: Event) -> None:
        pace.see(Logged(0, at, event))

    see(0.0, RunStarted("r", ProblemSpec(path="a.py"), {"turns": 5}, {}))
    assert pace.left(0.0) is None
    see(10.0, TurnStarted(0, request, "", ""))
    assert pace.left(20.0) == "0 of at most 5 turns done"
    see(70.0, TurnVoid(0, "nothing"))
    assert (
        pace.left(70.0)
        == "1 of at most 5 turns done, about 4 min left at this pace, then the best is judged again"
    )


def test_a_log_is_told_how_far_the_run_is_where_a_minute_or_more_is_left() -> None:
    text = StringIO()
    progress = Progress(Console(file=text, width=200))
    request = TurnRequest(parent=None, window=(), kind="draft", model="m")
    progress(Logged(0, 0.0, RunStarted("r", ProblemSpec(path="a.py"), {"turns": 9}, {})))
    for turn in range(8):
        progress(Logged(0, 20.0 * turn, TurnStarted(turn, request, "", "")))
        progress(Logged(0, 20.0 * (turn + 1), TurnVoid(turn, "nothing")))
    told = [line for line in text.getvalue().splitlines() if "left at this pace" in line]
    assert told == [
        "1 of at most 9 turns done, about 3 min left at this pace, then the best is judged again",
        "4 of at most 9 turns done, about 2 min left at this pace, then the best is judged again",
    ]


def test_the_command_that_goes_on_can_be_pasted() -> None:
    assert resume_with(Path("my runs/a")) == (
        "resume with: kernelagent optimize --resume 'my runs/a'"
    )


@pytest.fixture
def stop() -> Iterator[StopOnInterrupt]:
    """As in a terminal: who started pytest with `nohup` has it ignore a terminal that closes."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield StopOnInterrupt()
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGHUP, before[1])


def test_a_terminal_that_closes_ends_like_ctrl_c(stop: StopOnInterrupt) -> None:
    assert not stop.asked()
    os.kill(os.getpid(), signal.SIGHUP)
    assert stop.asked()


def test_a_terminal_that_closes_ends_nothing_that_nohup_started(stop: StopOnInterrupt) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    left_running = StopOnInterrupt()
    os.kill(os.getpid(), signal.SIGHUP)
    assert not left_running.asked()
    assert not stop.asked()


def test_a_second_ctrl_c_that_was_swallowed_is_seen_at_the_next_look(
    stop: StopOnInterrupt,
) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        stop.asked()


def test_a_key_is_kept_by_name_and_never_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with pytest.raises(SystemExit):
        main(["keys", "list"])
    text = capsys.readouterr().out
    assert "OPENAI_API_KEY         environment" in text
    assert "sk-secret" not in text
    with pytest.raises(SystemExit) as ended:
        main(["keys", "set", "sk-secret-pasted-by-mistake"])
    assert ended.value.code == 2
