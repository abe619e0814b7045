"""How long the first prompt takes, and how many tokens it is, for the problems that real writers are asked.

    python -m benchmarks.first_prompts KERNELBENCH [--only NAME...]

KERNELBENCH is a checkout of KernelBench. Each prompt is a process of its own, `kernelagent prompt FILE --device virtual
--target sm_90`, timed from its start to its end. Writes `results/first_prompts.md`.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commit import head_of
from benchmarks.real_writer_problems import Asked, wanted

_PAGE = Path(__file__).parent / "results" / "first_prompts.md"
_ASKED_S = 10.0
_TOKENS = re.compile(r"([\d,]+) tokens")


@dataclass(frozen=True)
class Prompt:
    """One first prompt: seconds by the clock and of processor, tokens by estimate; `failed` is stderr's last line."""

    name: str
    kind: str
    wall_s: float
    cpu_s: float
    tokens: int
    failed: str = ""


def main() -> None:
    """Ask for each prompt, print its row, and write the page unless only some were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kernelbench", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="names of problems; writes nothing")
    options = parser.parse_args()
    prompts = []
    for asked in wanted(options.only):
        prompts.append(asked_for(asked, options.kernelbench))
        print(_row(prompts[-1]), flush=True)
    if not options.only:
        load = os.getloadavg()[0]
        _PAGE.write_text(page(prompts, head_of(Path(__file__).parents[1]), load))


def asked_for(asked: Asked, kernelbench: Path) -> Prompt:
    """Its first prompt, by the command that a user has."""
    with tempfile.TemporaryDirectory() as folder:
        path, module = asked.laid_out(kernelbench, Path(folder))
        command = [sys.executable, "-m", "kernelagent", "prompt", str(path), "--module", module]
        began, used = time.monotonic(), _cpu_s()
        ended = subprocess.run(
            [*command, "--device", "virtual", "--target", "sm_90"], capture_output=True, text=True
        )
        wall, cpu = time.monotonic() - began, _cpu_s() - used
    if ended.returncode:
        return Prompt(asked.name, asked.kind, wall, cpu, 0, ended.stderr.strip().splitlines()[-1])
    counted = _TOKENS.search(ended.stderr)
    if counted is None:
        raise ValueError(f"`kernelagent prompt` says no tokens: {ended.stderr!r}")
    return Prompt(asked.name, asked.kind, wall, cpu, int(counted[1].replace(",", "")))


def page(prompts: Iterable[Prompt], commit: str, load: float) -> str:
    """The page: how many are within what was asked, then a row for each."""
    every = list(prompts)
    soon = sum(not item.failed and item.wall_s < _ASKED_S for item in every)
    lines = [
        "# The first prompt of the problems that real writers are asked",
        "",
        f"`python -m benchmarks.first_prompts KERNELBENCH` at {commit}, two cores, load {load:.1f} at the end. Asked for: under {_ASKED_S:.0f} s each, by the clock.",
        f"**{soon} of {len(every)} are.** Tokens are an estimate (a third of the bytes).",
        "",
        "| problem | class | s | processor s | tokens |",
        "|---|---|--:|--:|--:|",
        *map(_row, every),
    ]
    return "\n".join(lines) + "\n"


def _row(item: Prompt) -> str:
    tokens = item.failed or str(item.tokens)
    return f"| {item.name} | {item.kind} | {item.wall_s:.1f} | {item.cpu_s:.1f} | {tokens} |"


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
