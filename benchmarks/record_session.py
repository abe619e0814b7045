"""Records a terminal session for the README: real commands in a pseudo-terminal, drawn as an SVG.

    python -m benchmarks.record_session --out docs/session.svg

The commands run in a fresh folder that holds the examples; what stands in the drawing is what was left
on the terminal when each had ended, after its prompt. Long lines break where the terminal ends.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import io
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 123
COMMANDS = (
    "kernelagent optimize examples/rms_norm_residual.py --device virtual --turns 3",
    "kernelagent recheck rms_norm_residual_optimized.py examples/rms_norm_residual.py",
)
_CONTROL = re.compile(r"\r\n|\r|\n|\x1b\[([\d;?]*)([A-Za-z])|\x1b")
# The drawing asks no server for a font.
FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>A session with kernelagent, as it was printed</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


@dataclass(frozen=True)
class Said:
    """What one command printed to the terminal, and how it ended."""

    command: str
    output: str
    status: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the commands and write the drawing; raises `RuntimeError` where one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "session.svg")
    out = parser.parse_args(arguments).out
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples")
        session = [say(command, Path(folder)) for command in COMMANDS]
    out.write_text(draw(session), encoding="utf-8")
    print(f"written: {out}, {out.stat().st_size} bytes")


def say(command: str, folder: Path) -> Said:
    """Run one `kernelagent ...` of this checkout in a pseudo-terminal of `COLUMNS` columns."""
    program, *words = shlex.split(command)
    if program != "kernelagent":
        raise ValueError(f"only kernelagent is recorded, not {program!r}")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    # A width in the environment would count for more than the terminal's own.
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "TERMINAL_WIDTH")}
    terminal = {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelagent", *words],
        cwd=folder,
        env={**kept, **terminal},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    output = settled(_read(ours))
    message = Said(command, output, process.wait())
    if message.status != 0:
        raise RuntimeError(f"{command} ended with {message.status}:\n{output}")
    return message


def settled(printed: str) -> str:
    """What stands on the terminal in the end: lines with their colours, without what was wiped.

    Knows what Rich's spinner does (wipe a line, go up one); raises `ValueError` for any other way to
    move the cursor, which would be drawn wrongly.
    """
    lines = [""]
    row = at = 0
    for control in _CONTROL.finditer(printed):
        lines[row] += printed[at : control.start()]
        at = control.end()
        match control[0], control[1], control[2]:
            case "\n" | "\r\n", _, _:
                row += 1
                lines += [""] * (row == len(lines))
            case "\r", _, _:
                pass  # Rich wipes the line before it writes over it, or ends it.
            case _, "2", "K":
                lines[row] = ""
            case _, "1", "A":
                row -= 1
            case _, "?25", "l" | "h":
                pass
            case _, _, "m":
                lines[row] += control[0]
            case _:
                raise ValueError(f"the cursor moves: {printed[control.start() :][:20]!r}")
    lines[row] += printed[at:]
    return "\n".join(lines).rstrip("\n") + "\n"


def draw(session: Sequence[Said]) -> str:
    """The session as one SVG that asks nobody for a font."""
    console = Console(
        width=COLUMNS,
        record=True,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    for index, message in enumerate(session):
        if index:
            console.print()
        console.print(Text.assemble(("$ ", "bold green"), (message.command, "bold")))
        for line in message.output.splitlines():
            console.print(Text.from_ansi(line), soft_wrap=False, highlight=False)
    return console.export_svg(
        title="kernelagent, without a GPU", theme=MONOKAI, code_format=FRAME, unique_id="session"
    )


def _read(descriptor: int) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="strict")
    text = ""
    while True:
        try:
            data = os.read(descriptor, 1 << 16)
        except OSError:
            # Linux says so when the last writer has closed its side.
            data = b""
        text += decoder.decode(data, final=not data)
        if not data:
            os.close(descriptor)
            return text


if __name__ == "__main__":
    main()
