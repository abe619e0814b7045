"""Each shipped example through `kernelagent optimize` and `evaluate`, as a user runs them.

python benchmarks/examples.py [--turns N] [--device auto] [--write FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_NAMES = {"rotary_embedding": ["--module", "RotaryEmbedding", "--inputs", "example_inputs"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    rows = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        rows.append(_row(path, arguments))
        print(rows[-1], flush=True)
    text = "\n".join(
        [
            "# The built-in policy on every example",
            "",
            f"`python benchmarks/examples.py --turns {arguments.turns} --device {arguments.device}`."
            " Times are ESTIMATES where nothing was timed (`virtual`); the shipped sizes are small,"
            " so most are bound by the launch.",
            "",
            "| example | kernels emitted | turns | candidate | eager | what | evaluate | s/turn |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
        ]
    )
    if arguments.write:
        arguments.write.write_text(text + "\n", encoding="utf-8")


def _row(path: Path, arguments: argparse.Namespace) -> str:
    names = _NAMES.get(path.stem, [])
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "module.py"
        words = ["--turns", str(arguments.turns), "--device", arguments.device, *names]
        began = time.monotonic()
        done = _kernelagent(
            "optimize", str(path), *words, "--out", str(out), "--runs", f"{folder}/runs"
        )
        seconds = time.monotonic() - began
        report: dict[str, Any] = json.loads(done.stdout)
        if done.returncode != 0:
            return f"| {path.stem} | none: {report['why']} | | | | | | |"
        judged = _kernelagent("evaluate", str(path), str(out), *names, "--device", arguments.device)
    winner = report["winner"]
    number = winner["timing"] or winner["estimate"]
    kind = "measured" if winner["timing"] else f"estimate, bound by {number['bound']}"
    kernels = ", ".join(f"`{kernel['name']}`" for kernel in winner["kernels"])
    turns = len(report["turns"])
    verdict = json.loads(judged.stdout)["verdict"]
    return (
        f"| {path.stem} | {kernels} | {turns} | {number['candidate_us']:.1f} µs | "
        f"{number['eager_us']:.1f} µs | {kind} | {verdict} | {seconds / (turns + 1):.1f} |"
    )


def _kernelagent(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernelagent", *words, "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


if __name__ == "__main__":
    main()
