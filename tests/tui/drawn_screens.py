"""The screens as text, each from a run that is made up and at a time that stands still.

`python tests/tui/drawn_screens.py` draws them anew into `tests/tui/screens`: read the difference
before you commit it. A file is the screen line by line; where colours are what it is about, the style
of every cell follows as a letter, and what the letters mean.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from string import ascii_letters

from rich.style import Style
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.tui_runs import made_run
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.tui.app import KernelAgentApp
from kernelagent.tui.run_screen import RunScreen
from kernelagent.tui.start_screen import StartScreen

FOLDER = Path(__file__).parent / "screens"
BEGAN = 1_767_268_800.0
"""Noon of the first of January 2026, UTC."""
SMALL, WIDE = (80, 24), (120, 40)


@dataclass(frozen=True)
class Drawing:
    """One screen, and what is done to it before it is drawn."""

    screen: Callable[[Path], Screen[None]]
    """Of the folder of the runs."""
    keys: tuple[str, ...] = ()
    size: tuple[int, int] = SMALL
    styles: bool = False
    environment: tuple[tuple[str, str], ...] = ()


def live(runs: Path) -> Screen[None]:
    folder = made_run(runs, 12, measured=True, streaming=True, began=BEGAN)
    return RunScreen(folder, lambda: True, clock=lambda: BEGAN + 75.0)


def past(runs: Path) -> Screen[None]:
    folder = made_run(runs, 9, finished=True, began=BEGAN)
    return RunScreen(folder, lambda: False, clock=lambda: BEGAN + 900.0)


def start(runs: Path) -> Screen[None]:
    made_run(runs, 9, finished=True, began=BEGAN)
    made_run(runs, 3, finished=True, measured=True, began=BEGAN + 3600.0)
    return StartScreen(RunConfig(runs=str(runs)))


DRAWINGS = {
    "live": Drawing(live),
    "live-wide": Drawing(live, ("c",), WIDE),
    "live-light": Drawing(live, ("t",), styles=True),
    "live-no-colour": Drawing(live, styles=True, environment=(("NO_COLOR", "1"),)),
    "past": Drawing(past),
    "turn-code": Drawing(live, ("home", "enter", "1")),
    "turn-verdict": Drawing(past, ("home", "down", "enter", "3")),
    "turn-kernels": Drawing(live, ("home", "down", "enter", "4")),
    "turn-narrow": Drawing(live, ("home", "down", "enter", "3"), (60, 24)),
    "compared": Drawing(past, ("home", "d", "down", "d")),
    "compared-wide": Drawing(live, ("up", "d", "up", "up", "up", "d", "s"), WIDE),
    "start": Drawing(start),
    "help": Drawing(live, ("question_mark",)),
}


def drawn(name: str) -> str:
    """What stands on the screen of that name."""
    drawing = DRAWINGS[name]
    with _nowhere_else(drawing) as runs:
        return asyncio.run(_draw(drawing, drawing.screen(runs)))


async def _draw(drawing: Drawing, screen: Screen[None]) -> str:
    app = KernelAgentApp(screen)
    async with app.run_test(size=drawing.size, notifications=False) as pilot:
        await _settle(pilot)
        for key in drawing.keys:
            await pilot.press(key)
            await _settle(pilot)
        strips = app.screen._compositor.render_strips()
    text = "".join(f"{strip.text.rstrip()}\n" for strip in strips)
    return text + _styles(strips) if drawing.styles else text


async def _settle(pilot: Pilot[None]) -> None:
    """Until nothing is left to do: what a worker reads, too, and what it asks to be drawn."""
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def _styles(strips: list[Strip]) -> str:
    letters: dict[str, str] = {}
    rows = []
    for strip in strips:
        row = ""
        for segment in strip:
            name = _spelled(segment.style or Style())
            row += letters.setdefault(name, ascii_letters[len(letters)]) * segment.cell_length
        rows.append(f"{row}\n")
    return "".join([*rows, *(f"{letter}: {name}\n" for name, letter in letters.items())])


def _spelled(style: Style) -> str:
    message = [name for name in ("bold", "dim", "italic", "reverse") if getattr(style, name)]
    colours = (style.color, style.bgcolor)
    triplets = (
        c.get_truecolor().hex if c is not None and not c.is_default else "-" for c in colours
    )
    return " ".join([*message, *" on ".join(triplets).split(" ")])


@contextlib.contextmanager
def _nowhere_else(drawing: Drawing) -> Iterator[Path]:
    """A folder without a name of its own, a time zone and an environment that are always the same."""
    before, place = dict(os.environ), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name in [n for n in os.environ if n == "NO_COLOR" or n.startswith("TEXTUAL")]:
            del os.environ[name]
        os.environ.update({"TZ": "UTC", "COLORTERM": "truecolor", **dict(drawing.environment)})
        time.tzset()
        os.chdir(folder)
        try:
            yield Path("runs")
        finally:
            os.chdir(place)
            os.environ.clear()
            os.environ.update(before)
            time.tzset()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in DRAWINGS:
        (FOLDER / f"{name}.txt").write_text(drawn(name), encoding="utf-8")


if __name__ == "__main__":
    main()
