"""The screens, driven by keys and clicks in Textual's own pilot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import DataTable, Digits, Input, TabbedContent

from benchmarks.tui_runs import made_run
from kernelagent.domain.configuration.budget import DEFAULT_TURNS
from kernelagent.domain.configuration.config import RunConfig, resolve
from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import ToolCalled, TurnStarted
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.replies.tool_calls import ToolCall, ToolResult
from kernelagent.storage.inbox import Inbox
from kernelagent.storage.run_log import LOCK, EventLog, RunFolder
from kernelagent.storage.steering import Command
from kernelagent.tui.app import KernelAgentApp, start_at
from kernelagent.tui.dialogs import Words
from kernelagent.tui.option_input import OptionInput
from kernelagent.tui.run_screen import RunScreen
from kernelagent.tui.start_screen import StartScreen
from kernelagent.tui.turns.compare_screen import CompareScreen
from kernelagent.tui.turns.turn_screen import TurnScreen
from kernelagent.tui.turns.turn_tree import TurnTree

SMALLEST = (80, 24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return made_run(tmp_path_factory.mktemp("runs"), 12, measured=True, streaming=True)


def driven(
    screen: Screen[None],
    act: Callable[[Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = SMALLEST,
) -> None:
    """Show `screen`, let `act` press keys, and take it down."""

    async def drive() -> None:
        app = KernelAgentApp(screen)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await act(pilot)

    asyncio.run(drive())


async def settled(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    """Wait until something holds; a loaded machine only takes longer."""
    for _ in range(600):
        if holds():
            return
        await pilot.pause(0.05)
    raise AssertionError("it never came to hold")


def text_of(pilot: Pilot[None], selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Widget).render())


@pytest.mark.long
def test_one_screen_of_80_by_24_shows_best_curve_turns_spend_and_what_happens(
    folder: RunFolder,
) -> None:
    async def act(pilot: Pilot[None]) -> None:
        screen = pilot.app.screen
        for name in ("#best", "#curve", "#turns", "#now", "#spend", "Footer"):
            region = screen.query_one(name).region
            assert region.width > 0
            assert region.height > 0
            assert region.right <= 80
            assert region.bottom <= 24
        assert screen.query_one(Digits).value.endswith("x")
        assert "turns 12/1.0k" in text_of(pilot, "#spend")
        assert "reply arriving, 700 characters" in " ".join(text_of(pilot, "#now").split())
        assert screen.query_one(TurnTree).turn == 12
        await pilot.press("c")
        assert screen.query_one("#curve").border_title == "best against tokens"

    driven(RunScreen(folder, lambda: True), act)


def test_a_turn_opens_with_code_diff_verdict_kernels_and_prompt(folder: RunFolder) -> None:
    async def act(pilot: Pilot[None]) -> None:
        await pilot.press("home", "down", "enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, TurnScreen)
        wanted = ("version 1", "turn 0", "stages", "", "Make it faster")
        for key, words in zip("12345", wanted, strict=True):
            await pilot.press(key)
            await pilot.pause()
            name = pilot.app.screen.query_one(TabbedContent).active
            if words:
                assert words in text_of(pilot, f"#{name}-text")
        await pilot.press("right_square_bracket")
        assert "turn 2" in text_of(pilot, "#title")
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, RunScreen)

    driven(RunScreen(folder, lambda: True), act)


@pytest.mark.long
def test_calls_of_tools_stand_with_their_turn(tmp_path: Path) -> None:
    folder = made_run(tmp_path, 2, measured=True)
    log = EventLog(folder, clock=lambda: 1_767_270_000.0)
    log.publish(TurnStarted(2, TurnRequest("optimise", "openai/gpt-5", 1), "0" * 64, batch=(2,)))
    call = ToolCall.of("check", code="# a draft\n")
    log.publish(ToolCalled(2, 1, call, "It compiles.", ToolResult(1.0), "Does it?"))
    log.close()

    async def act(pilot: Pilot[None]) -> None:
        await pilot.press("end", "enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, TurnScreen)
        await pilot.press("6")
        await pilot.pause()
        text = text_of(pilot, "#tools-text")
        for words in ("check 1", "Does it?", "# a draft", "It compiles."):
            assert words in text

    driven(RunScreen(folder, lambda: True), act)


@pytest.mark.long
def test_two_turns_are_chosen_and_compared(folder: RunFolder) -> None:
    async def act(pilot: Pilot[None]) -> None:
        tree = pilot.app.screen.query_one(TurnTree)
        await pilot.press("home", "down", "d")
        assert tree.border_subtitle == "d: compare with turn 1"
        await pilot.press("down", "d")
        await pilot.pause()
        assert isinstance(pilot.app.screen, CompareScreen)
        assert text_of(pilot, "#title") == " turn 1 beside turn 2"
        await pilot.press("s", "left_square_bracket")
        assert text_of(pilot, "#title") == " turn 2 beside turn 0"
        await pilot.press("left_square_bracket")
        assert text_of(pilot, "#title") == " turn 2 beside turn 0"
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, RunScreen)
        assert tree.border_subtitle == "enter: open"

    driven(RunScreen(folder, lambda: True), act)


@pytest.mark.long
def test_a_turn_chosen_twice_is_compared_with_nothing(folder: RunFolder) -> None:
    async def act(pilot: Pilot[None]) -> None:
        await pilot.press("d", "d")
        assert isinstance(pilot.app.screen, RunScreen)
        assert pilot.app.screen.query_one(TurnTree).border_subtitle == "enter: open"

    driven(RunScreen(folder, lambda: True), act)


@pytest.mark.long
def test_the_mouse_chooses_a_turn_and_opens_it(folder: RunFolder) -> None:
    async def act(pilot: Pilot[None]) -> None:
        await pilot.click("#turns", offset=(5, 2))
        await pilot.click("#turns", offset=(5, 2))
        await settled(pilot, lambda: isinstance(pilot.app.screen, TurnScreen))

    driven(RunScreen(folder, lambda: True), act)


@pytest.mark.long
def test_keys_leave_commands_in_the_inbox_and_never_touch_the_log(tmp_path: Path) -> None:
    folder = made_run(tmp_path, 4)
    before = folder.log.read_bytes()
    log = EventLog(folder)

    async def act(pilot: Pilot[None]) -> None:
        await pilot.press("space")
        await pilot.press("h", *"fewer passes", "enter")
        await pilot.press("home", "p")
        await pilot.press("u", *"turns=+5", "enter")
        await pilot.press("x", "n", "e", "y")
        await pilot.pause()

    driven(RunScreen(folder, lambda: True), act)
    log.close()
    sent = [command for command in Inbox.of(folder).waiting() if isinstance(command, Command)]
    assert [(c.act, c.text, c.turn, c.limits) for c in sent] == [
        ("pause", "", None, {}),
        ("hint", "fewer passes", None, {}),
        ("pin", "", 0, {}),
        ("budget", "", None, {"turns": "+5"}),
        ("emit", "", None, {}),
    ]
    assert folder.log.read_bytes() == before


@pytest.mark.long
def test_a_past_run_says_why_it_cannot_be_paused(tmp_path: Path) -> None:
    folder = made_run(tmp_path, 3, finished=True)
    (folder.path / LOCK).unlink()

    async def act(pilot: Pilot[None]) -> None:
        assert "DONE" in text_of(pilot, "#title")
        await pilot.press("space")
        await pilot.pause()
        reported = [note.message for note in pilot.app._notifications]
        assert ["is not going on" in message for message in reported] == [True]

    driven(RunScreen(folder), act)
    assert Inbox.of(folder).waiting() == ()


@pytest.mark.long
def test_help_palette_and_light_theme_are_a_key_away(folder: RunFolder) -> None:
    async def act(pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        assert isinstance(pilot.app.screen, Words)
        await pilot.press("escape")
        await pilot.press("t")
        assert not pilot.app.current_theme.dark
        titles = {command.title for command in pilot.app.get_system_commands(pilot.app.screen)}
        assert {"Hint", "Pin", "Ban", "Stop", "Accept and emit", "Open turn"} <= titles

    driven(RunScreen(folder, lambda: True), act)


@pytest.mark.long
def test_the_start_screen_lists_the_runs_and_opens_one(folder: RunFolder) -> None:
    async def act(pilot: Pilot[None]) -> None:
        table = pilot.app.screen.query_one(DataTable)
        await settled(pilot, lambda: table.row_count == 1)
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, StartScreen)

    driven(StartScreen(RunConfig(runs=str(folder.path.parent))), act)


def test_the_start_screen_opens_with_what_a_command_line_without_flags_comes_to() -> None:
    config = resolve({"runs": "none"}, None)

    async def act(pilot: Pilot[None]) -> None:
        assert pilot.app.screen.query_one("#model", OptionInput).value == "compiler"
        assert pilot.app.screen.query_one("#turns", OptionInput).value == str(DEFAULT_TURNS)

    driven(StartScreen(config), act)


@pytest.mark.long
def test_a_problem_fills_the_start_screen_in_and_spends_nothing(tmp_path: Path) -> None:
    problem = tmp_path / "model.py"
    problem.write_text("class Model: ...\n", encoding="utf-8")
    config = RunConfig(runs=str(tmp_path / "runs"))
    screen = start_at(str(problem), config)

    async def act(pilot: Pilot[None]) -> None:
        assert pilot.app.screen.query_one("#problem", Input).value == str(problem)
        assert pilot.app.screen.query_one("#model", Input).value == "compiler"

    driven(screen, act)
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
def test_a_word_that_is_neither_run_nor_problem_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no run"):
        start_at("nothing", RunConfig(runs=str(tmp_path)))
