"""How the commands on the fake device ended, and the page that shows it.

Every run of a command is a line of the file beside the page, so that a list of hours may be run in
parts; the page shows what was run on one commit.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.fake_cuda.commands import KERNEL_MS, OPERATOR_MS, Command

BAR = "\\|"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    seconds: float
    processor_s: float
    """Of all its processes."""
    output: str
    left: tuple[str, ...]
    """Processes and files that should not be there any more."""

    def faults(self, command: Command) -> list[str]:
        result = list(self.left)
        if not command.killed_at and self.status != command.status:
            result.append(f"status {self.status} instead of {command.status}")
        if command.says and not re.search(command.says, " ".join(self.output.split())):
            result.append(f"does not say {command.says!r}")
        return result


@dataclass(frozen=True)
class Row:
    """A run of a command, as it is kept."""

    command: str
    commit: str
    status: int
    seconds: float
    processor_s: float
    load: float | None
    """Of the machine, when the command had ended; None where nobody noted it."""
    faults: list[str]

    @staticmethod
    def of(command: Command, ended: Ended, commit: str, load: float) -> Row:
        seconds, processor_s = round(ended.seconds, 1), round(ended.processor_s, 1)
        faults = ended.faults(command)
        return Row(command.name, commit, ended.status, seconds, processor_s, round(load, 1), faults)

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def kept_rows(log: Path, commit: str) -> list[Row]:
    """What was run on `commit` before."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [row for row in (Row(**json.loads(line)) for line in lines) if row.commit == commit]


def page(listed: Sequence[Command], rows: Sequence[Row], below: str = "") -> str:
    """The table as Markdown, and `below` it what somebody wrote: its first line is a heading."""
    head = [
        "# Every command on a fake CUDA device",
        "",
        f"`make fake-gpu`, {_when(rows)}: torch 2.11.0 (CUDA 13), triton 3.6.0, Python 3.12, all tiers of the sandbox.",
        "The device is tests/fake_cuda: it tells whether a command ends as documented and leaves nothing",
        "behind. It does not tell times (an operator of torch takes "
        f"{OPERATOR_MS:g} ms of its clock, a kernel {KERNEL_MS:g} ms), nor CUPTI,",
        "capture, memory faults or concurrency. A column with two numbers: the command was run twice.",
        "",
        "| command | must end with | ended with | processor seconds | seconds | load | as it must |",
        "|---|---|---|---|---|---|---|",
    ]
    lines = [_line(command, [r for r in rows if r.command == command.name]) for command in listed]
    return "\n".join([*head, *lines]) + "\n" + (f"\n{below}" if below else "")


def _when(rows: Sequence[Row]) -> str:
    commits = dict.fromkeys(f"commit {row.commit}" for row in rows if row.commit)
    return ", ".join([*commits, f"{os.cpu_count()} cores"])


def _line(command: Command, rows: Sequence[Row]) -> str:
    must = "killed" if command.killed_at else str(command.status)
    must += f", says “{command.says}”" if command.says else ""
    faults = list(dict.fromkeys(fault for row in rows for fault in row.faults))
    said = "no: " + "; ".join(faults).replace("|", BAR) if faults else "yes"
    cells = [
        command.name,
        must.replace("|", BAR),
        ", ".join(str(row.status) for row in rows),
        ", ".join(f"{row.processor_s:.0f}" for row in rows),
        ", ".join(f"{row.seconds:.0f}" for row in rows),
        ", ".join("?" if row.load is None else f"{row.load:.0f}" for row in rows),
        said if rows else "not run",
    ]
    return "| " + " | ".join(cells) + " |"


def written_below(path: Path) -> str:
    """What stands on the page from its second heading on; a new table leaves it alone."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    _, mark, rest = text.partition("\n## ")
    return f"## {rest}" if mark else ""
