"""Thirty wrong inputs, typed as a user types them: how long until the sentence that says what is wrong.

    python -m benchmarks.wrong_inputs [--repeats 3]

writes `benchmarks/results/wrong_inputs.md`. Each is a process of its own, from its start to its end; the
fastest of the repeats counts, because other programs only ever add.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "wrong_inputs.md"
LIMIT_S = 1.0
MODEL = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(4, 8)]
"""
FILES = {
    "model.py": MODEL,
    "broken.py": "import torch\ndef x(:\n",
    "empty.py": "",
    "no_inputs.py": MODEL.partition("def get_inputs")[0],
    "mine.py": "print('mine')\n",
    "bad.toml": "turns = [",
    "unknown.toml": "turnz = 3\n",
    "notes.txt": "hello\n",
}
INPUTS = (
    "optimize",
    "optimize nofile.py",
    "optimize broken.py",
    "optimize empty.py",
    "optimize no_inputs.py",
    "optimize nopackage.module:Block",
    "optimize torch.nope:Block",
    "optimize model.py --module Nope",
    "optimize model.py --inputs nope",
    "optimize model.py --init nope",
    "optimize model.py --check nope",
    "optimize model.py --strategy nope",
    "optimize model.py --strategy window --set nope=1",
    "optimize model.py --set nope",
    "optimize model.py --target sm_12",
    "optimize model.py --device gpu",
    "optimize model.py --policy nope",
    "optimize model.py --policy coverage:2",
    "optimize model.py --baseline nope",
    "optimize model.py --dynamic x",
    "optimize model.py --turns 0",
    "optimize model.py --model gpt5",
    "optimize model.py --model opnai/gpt-5 --yes",
    "optimize model.py --model openai/gpt-5 --yes",
    "optimize model.py --model openai/gpt-5",
    "optimize model.py --model openai/gpt-5 --api-base http://127.0.0.1:9/v1 --yes",
    "optimize model.py --model m/x --api-base localhost:8000 --yes",
    "optimize model.py --model replay:gone.jsonl",
    "optimize model.py --out mine.py",
    "optimize model.py --out gone/x.py",
    "optimize model.py --out /proc/x.py",
    "optimize model.py --runs mine.py/runs",
    "optimize model.py --config bad.toml",
    "optimize model.py --config unknown.toml",
    "optimize model.py --resume 20200101-000000-gone",
    "evaluate model.py gone.py",
    "show 20200101-000000-gone",
)


@dataclass(frozen=True)
class Row:
    """What one wrong input led to."""

    words: str
    seconds: float
    cpu_s: float
    """User and system time: what a quiet machine would need."""
    status: int
    sentence: str
    left_behind: bool


def tried(words: str, repeats: int) -> Row:
    """One input, in a folder of its own."""
    best: Row | None = None
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file, text in FILES.items():
                (folder / file).write_text(text, encoding="utf-8")
            bare = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
            began, used = time.perf_counter(), _cpu()
            done = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    "from kernelagent.cli.main import main; main()",
                    *words.split(),
                ],
                cwd=folder,
                env=bare | {"COLUMNS": "200", "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            seconds, cpu = time.perf_counter() - began, _cpu() - used
            left = any((folder / ".kernelagent" / "runs").glob("*"))
        if best is None or seconds < best.seconds:
            best = Row(words, seconds, cpu, done.returncode, sentence_of(done.stderr), left)
    assert best is not None
    return best


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def sentence_of(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip("│ ") for line in text.splitlines() if line.strip("│╭╰─╮╯ ")]
    line = next((x for x in reversed(lines) if x.startswith("kernelagent:")), None)
    return (line or (lines[-1] if lines else "nothing")).removeprefix("kernelagent: ")


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = [tried(words, options.repeats) for words in INPUTS]
    slow = [row for row in rows if row.seconds >= LIMIT_S]
    lines = [
        "# Wrong inputs",
        "",
        f"`python -m benchmarks.wrong_inputs`, the fastest of {options.repeats}, load average "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores. {len(rows)} inputs, {len(slow)} of them not "
        f"under {LIMIT_S:g} s ({sum(r.cpu_s >= LIMIT_S for r in rows)} by processor time), {sum(r.left_behind for r in rows)} that left a run behind, "
        f"{sum(r.status not in (2, 3) for r in rows)} with another status than 2 or 3.",
        "",
        "| `kernelagent …` | s | CPU s | status | what it says |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        message = row.sentence.replace("|", "/").replace("\n", " ")[:140]
        lines.append(
            f"| `{row.words}` | {row.seconds:.2f} | {row.cpu_s:.2f} | {row.status} | {message} |"
        )
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
