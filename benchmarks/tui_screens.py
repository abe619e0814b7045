"""Draws every screen of the TUI as SVG: `python -m benchmarks.tui_screens --out DIR [--run RUN]`.

Both sizes, 80×24 and 120×40, dark and light. Without `--run` the screens show runs that are made up
(`benchmarks.tui_runs`); with it they show that run. `--docs` draws the one in `docs/tui.md` instead.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot
from textual.screen import Screen

from benchmarks.tui_runs import made_run
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.storage.run_log import RunFolder
from kernelagent.tui.app import KernelAgentApp
from kernelagent.tui.run_screen import RunScreen
from kernelagent.tui.start_screen import StartScreen

SIZES = ((80, 24), (120, 40))
DOCS = (100, 30)
TURN_KEYS = (("code", "1"), ("diff", "2"), ("verdict", "3"), ("kernels", "4"), ("prompt", "5"))
Act = Callable[[Pilot[None]], Awaitable[None]]


def pressing(*keys: str) -> Act:
    async def act(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()

    return act


async def draw(
    name: str, screen: Screen[None], act: Act, out: Path, size: tuple[int, int], *, light: bool
) -> None:
    """One screen as a file."""
    app = KernelAgentApp(screen)
    async with app.run_test(size=size, notifications=False) as pilot:
        if light:
            app.theme = "textual-light"
        await pilot.pause()
        await act(pilot)
        await app.workers.wait_for_complete()
        await pilot.pause()
        shade = "light" if light else "dark"
        path = out / f"{name}-{size[0]}x{size[1]}-{shade}.svg"
        path.write_text(app.export_screenshot(title=""), encoding="utf-8")


async def draw_all(out: Path, runs: Path, given: RunFolder | None, only: str) -> None:
    measured = given or made_run(runs, 40, measured=True, streaming=True)
    estimated = given or made_run(runs, 24, finished=True)
    for size in SIZES:
        for light in (False, True):
            shots: list[tuple[str, Screen[None], Act]] = [
                ("start", StartScreen(RunConfig(runs=str(runs))), pressing()),
                ("live", RunScreen(measured, lambda: True), pressing("c")),
                ("past", RunScreen(estimated), pressing()),
                ("compared", RunScreen(estimated), pressing("home", "d", "down", "d")),
                ("help", RunScreen(measured, lambda: True), pressing("question_mark")),
                ("hint", RunScreen(measured, lambda: True), pressing("h", *"load rows once")),
                ("stop", RunScreen(measured, lambda: True), pressing("x")),
                ("palette", RunScreen(measured, lambda: True), pressing("ctrl+p")),
            ]
            for pane, key in TURN_KEYS:
                keys = pressing("home", *["down"] * 3, "enter", key)
                shots.append((f"turn-{pane}", RunScreen(measured, lambda: True), keys))
            for name, screen, act in shots:
                if not name.startswith(only):
                    continue
                await draw(name, screen, act, out, size, light=light)


async def draw_for_docs() -> None:
    """Two turns compared, at a time that stands still."""
    with tempfile.TemporaryDirectory() as folder:
        run = made_run(Path(folder), 12, measured=True, began=1_767_268_800.0)
        keys = pressing("up", "d", "up", "up", "d", "s")
        await draw("compared", RunScreen(run, lambda: True), keys, Path(folder), DOCS, light=False)
        drawn = Path(folder) / f"compared-{DOCS[0]}x{DOCS[1]}-dark.svg"
        page = Path(__file__).parents[1] / "docs" / "tui-compared.svg"
        page.write_text(drawn.read_text(encoding="utf-8"), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("screens"))
    parser.add_argument("--docs", action="store_true", help="docs/tui-compared.svg and no other")
    parser.add_argument("--only", default="", help="screens whose name begins so")
    parser.add_argument("--run", help="a run's folder")
    given = parser.parse_args()
    if given.docs:
        asyncio.run(draw_for_docs())
        return
    given.out.mkdir(parents=True, exist_ok=True)
    run = None if given.run is None else RunFolder.open(given.run, Path(given.run).parent)
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        asyncio.run(draw_all(given.out, run.path.parent if run else runs, run, given.only))
    print(f"{len(list(given.out.glob('*.svg')))} screens in {given.out}")


if __name__ == "__main__":
    main()
