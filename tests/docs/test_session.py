"""The recorded session: made from what a terminal really showed, small, and asking nobody for anything."""

from __future__ import annotations

import io
import re
import shlex
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from benchmarks.record_session import COLUMNS, COMMANDS, ROOT, Said, draw, say, settled

DRAWING = (ROOT / "docs" / "session.svg").read_text(encoding="utf-8")
MOST_BYTES = 60_000


def words(svg: str) -> str:
    """The text of a drawing, its lines in order."""
    return "".join(ET.fromstring(svg).itertext()).replace("\u00a0", " ")


def test_committed_drawing_shows_the_commands_and_how_they_ended():
    message = words(DRAWING)
    assert [command for command in COMMANDS if f"$ {command}" not in message] == []
    assert "verified, not timed: rms_norm_residual_optimized.py" in message
    assert "it holds" in message


def test_committed_drawing_is_small_and_fetches_nothing():
    assert len(DRAWING.encode()) < MOST_BYTES
    addresses = set(re.findall(r"https?://[^\s\"')]+", DRAWING))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in DRAWING


def test_readme_shows_the_drawing():
    assert "](docs/session.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_command_is_run_in_a_terminal_of_the_stated_width(tmp_path):
    message = say("kernelagent --help", tmp_path)
    lines = message.output.splitlines()
    assert "optimize" in message.output
    assert max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in lines) == COLUMNS


@pytest.mark.long
def test_command_that_fails_is_not_recorded(tmp_path):
    with pytest.raises(RuntimeError, match="no run"):
        say("kernelagent show missing", tmp_path)
    with pytest.raises(ValueError, match="only kernelagent"):
        say(shlex.join(["ls", "-l"]), tmp_path)


def test_spinner_leaves_nothing_and_lines_around_it_stay():
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=40, color_system="standard")
    console.print("before")
    with console.status("working"):
        console.print("between", style="green")
    console.print("after")
    shown = re.sub(r"\x1b\[[\d;]*m", "", settled(terminal.getvalue()))
    assert [line for line in shown.splitlines() if line] == ["before", "between", "after"]


def test_cursor_that_moves_in_another_way_is_refused():
    with pytest.raises(ValueError, match="the cursor moves"):
        settled("a\x1b[10;2Hb")


def test_colours_are_drawn_as_they_were_printed():
    svg = draw([Said("kernelagent show", "plain \x1b[31mred\x1b[0m\n", 0)])
    assert "plain" in words(svg)
    (style,) = re.findall(r'<text class="session-(r\d)"[^>]*>red</text>', svg)
    assert re.search(rf"\.session-{style} {{ fill: #f4005f", svg)
