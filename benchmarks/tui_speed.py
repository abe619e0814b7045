"""How fast the TUI is: attaching, keys while a reply streams, and events lost in a soak.

`python -m benchmarks.tui_speed [--soak SECONDS] [--out FILE]`. Seconds are processor seconds of the
process that draws, without what else the machine does; the log is written by another process.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.tui_runs import made_run, reply
from kernelagent.domain.events import ReplyProgressed, TurnStarted
from kernelagent.domain.history import TurnRequest
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from kernelagent.tui.app import KernelAgentApp
from kernelagent.tui.run_screen import RunScreen
from kernelagent.tui.turns.turn_tree import TurnTree

TURNS = 1000
TOKENS_PER_S = 200
SOAK_PER_S = 100
SIZE = (120, 40)
KEYS = ("up", "up", "down", "pageup", "pagedown", "home", "end", "c")


@dataclass(frozen=True)
class Soak:
    """What was written, and what the screen had taken of it once the writer was done."""

    written: int
    seen: int
    in_order: bool
    cpu_share: float
    """Of one core, that the screen took."""


def attach_s(folder: RunFolder) -> float:
    """Processor seconds from an application that is not there to a screen that shows the run."""

    async def attach() -> float:
        began = time.process_time()
        screen = RunScreen(folder, lambda: True)
        async with KernelAgentApp(screen).run_test(size=SIZE) as pilot:
            await pilot.pause()
            assert len(screen.query_one(TurnTree)._rows) >= TURNS
            return time.process_time() - began

    return asyncio.run(attach())


def keys_ms(folder: RunFolder, presses: int) -> list[float]:
    """Processor milliseconds from a key to the screen that it changed, while a reply streams."""

    async def press() -> list[float]:
        screen = RunScreen(folder, lambda: True)
        result = []
        async with KernelAgentApp(screen).run_test(size=SIZE) as pilot:
            await pilot.pause()
            before = screen.view.events
            with _writer(folder, TOKENS_PER_S, 3600.0) as writer:
                while screen.view.events == before:
                    await pilot.pause(0.05)
                for number in range(presses):
                    began = time.process_time()
                    await pilot.press(KEYS[number % len(KEYS)])
                    result.append(1000 * (time.process_time() - began))
                    await asyncio.sleep(0.05)
                writer.terminate()
        assert screen.view.events > before + 1
        return result

    return asyncio.run(press())


def soak(folder: RunFolder, seconds: float) -> Soak:
    """Events at `SOAK_PER_S` for so long; then the screen and the log are compared."""

    async def follow() -> Soak:
        screen = RunScreen(folder, lambda: True)
        async with KernelAgentApp(screen).run_test(size=SIZE) as pilot:
            cpu, wall = time.process_time(), time.monotonic()
            with _writer(folder, SOAK_PER_S, seconds) as writer:
                while writer.poll() is None:
                    await pilot.pause(0.2)
            share = (time.process_time() - cpu) / (time.monotonic() - wall)
            await screen.read_all()
            written = sum(1 for _ in read_events(folder.log))
            return Soak(written, screen.view.events, not screen._broken, share)

    return asyncio.run(follow())


def _writer(folder: RunFolder, rate: float, seconds: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.tui_speed", "--write", str(folder.path)]
    return subprocess.Popen([*command, "--rate", str(rate), "--seconds", str(seconds)])


def write(folder: RunFolder, rate: float, seconds: float) -> None:
    """A reply that arrives token by token, each an event of its own, as fast as asked for."""
    log = EventLog(folder)
    last = max(e.event.turn for e in read_events(folder.log) if isinstance(e.event, TurnStarted))
    turn = last + 1
    log.publish(
        TurnStarted(turn, TurnRequest("optimise", "openai/gpt-5", last), "0" * 64, batch=(turn,))
    )
    text, began = reply(turn), time.monotonic()
    for number in range(int(rate * seconds)):
        start = 4 * number % len(text)
        log.publish(ReplyProgressed(turn, text[start : start + 4], 4 * number + 4))
        time.sleep(max(0.0, began + (number + 1) / rate - time.monotonic()))
    log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--soak", type=float, default=10.0, help="seconds")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, default=TOKENS_PER_S, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=10.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write(RunFolder(Path(given.write)), given.rate, given.seconds)
        return
    loaded = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as runs:
        folder = made_run(Path(runs), TURNS)
        attached = statistics.median(attach_s(folder) for _ in range(3))
        pressed = sorted(keys_ms(folder, 80))
        soaked = soak(folder, given.soak)
    rows = [
        f"| attach to a run of {TURNS} turns | {attached:.2f} s | under 1 s |",
        f"| key to screen, reply at {TOKENS_PER_S} tokens/s, median of {len(pressed)} "
        f"| {statistics.median(pressed):.1f} ms | under 50 ms |",
        f"| the same, 95th percentile | {pressed[int(0.95 * len(pressed))]:.1f} ms | under 50 ms |",
        f"| events lost in {given.soak:g} s at {SOAK_PER_S}/s, of {soaked.written} "
        f"| {soaked.written - soaked.seen} | 0 |",
        f"| share of a core that drawing took meanwhile | {soaked.cpu_share:.0%} | |",
    ]
    head = [
        "# How fast the TUI is",
        "",
        f"`python -m benchmarks.tui_speed --soak {given.soak:g} --out benchmarks/results/tui.md`, Python "
        f"{platform.python_version()}, textual {version('textual')}, {os.cpu_count()} cores at a load of "
        f"{loaded:.1f} before and {os.getloadavg()[0]:.1f} after; seconds of the drawing process alone, "
        "which a loaded machine makes longer too.",
        "",
        "| what | found | wanted |",
        "|---|---|---|",
    ]
    text = "\n".join([*head, *rows]) + "\n"
    print(text)
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
