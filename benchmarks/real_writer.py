"""Strategies with real writers: prompts go to a desk, replies come from it, every turn is a row.

    python -m benchmarks.real_writer run ARM --desk DIR --kernelbench DIR [--until HH:MM] [--only NAME...]
    python -m benchmarks.real_writer table [--write]

`run` puts one problem after another on `DIR/ARM/PROBLEM` (`--model files:`) and waits for whoever writes there. A
run that has ended is recorded as a cassette in `tests/cassettes/real_writer` (without the prompts, which hold
KernelBench's text) and its turns are added to `results/real_writer.jsonl`. `table` makes `results/real_writer.md`
from the rows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from benchmarks import kept_rows
from benchmarks.commit import head_of
from benchmarks.real_writer_problems import Asked, wanted
from benchmarks.real_writer_table import Row, page
from kernelagent.domain.better import ratio_interval, standing
from kernelagent.domain.events import Evaluated, ReplyReceived, RunFinished, ToolCalled, TurnVoid
from kernelagent.storage.cassette import cassette_text, of_run
from kernelagent.storage.run_log import RunFolder, read_events

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CASSETTES = ROOT / "tests" / "cassettes" / "real_writer"
TURNS = 8
_PER_TOKEN = 4
"""Characters of a token, about: the writers' own tokenizers are not known here."""
_JUDGING_S = 600
"""Longer than the default: several arms share the machine, and a verdict must not depend on that."""


@dataclass(frozen=True)
class Arm:
    """A strategy, with the tools beside turns or without."""

    name: str
    strategy: str
    tool_calls: int

    def words(self) -> list[str]:
        return ["--strategy", self.strategy, "--tool-calls", str(self.tool_calls)]


ARMS = {
    arm.name: arm
    for arm in (
        Arm("sequential", "sequential", 8),
        Arm("sequential-no-tools", "sequential", 0),
        Arm("window", "window", 8),
        Arm("chains", "chains", 8),
        Arm("tree", "tree", 8),
    )
}


def run(arm: Arm, asked: Asked, desk: Path, kernelbench: Path) -> list[Row]:
    """One problem under one arm, until its turns are spent; the cassette is written beside the rows."""
    folder = desk / arm.name / asked.name
    folder.mkdir(parents=True, exist_ok=True)
    file, module = asked.laid_out(kernelbench, folder)
    runs = folder / "runs"
    command = [
        *(sys.executable, "-m", "kernelagent", "optimize", str(file), "--module", module),
        *("--model", f"files:{folder}", "--turns", str(TURNS), "--device", "virtual"),
        *("--judging-seconds", str(_JUDGING_S), "--envelope-seconds", "0", "--force"),
        *("--runs", str(runs), "--out", str(folder / "optimized.py"), *arm.words()),
    ]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    (folder / "DONE").write_text(done.stdout + done.stderr, encoding="utf-8")
    made = sorted(runs.iterdir()) if runs.is_dir() else []
    if not made:
        raise RuntimeError(f"{arm.name}/{asked.name}: no run: {done.stderr[-600:]}")
    kept = RunFolder(made[-1])
    CASSETTES.mkdir(parents=True, exist_ok=True)
    replies = tuple(replace(reply, prompt=None, model=None) for reply in of_run(kept))
    cassette = CASSETTES / f"{arm.name}-{asked.name}.jsonl"
    cassette.write_text(cassette_text(replies), encoding="utf-8")
    return list(rows_of(arm, asked, kept))


def rows_of(arm: Arm, asked: Asked, folder: RunFolder) -> Iterator[Row]:
    """A run's turns, as its log has them."""
    commit = head_of(ROOT)
    written: dict[int, int] = {}
    calls: dict[int, int] = {}
    ends = ""
    rows: list[Row] = []
    for logged in read_events(folder.log):
        match logged.event:
            case ToolCalled(turn=turn):
                calls[turn] = calls.get(turn, 0) + 1
            case ReplyReceived(turn=turn, text=text):
                written[turn] = len(text) // _PER_TOKEN
            case TurnVoid(turn=turn):
                rows.append(Row(arm.name, asked.name, asked.kind, turn, "void", commit=commit))
            case Evaluated(turn=turn, evaluation=judged):
                estimate, ratio = judged.estimate, ratio_interval(judged)
                headroom = judged.headroom if judged.accepted else None
                rows.append(
                    Row(
                        arm.name,
                        asked.name,
                        asked.kind,
                        turn,
                        judged.reason.code if judged.reason is not None else judged.verdict,
                        ratio=ratio.value if ratio is not None and judged.accepted else None,
                        against_compile=(
                            estimate.speedup_compile.value
                            if estimate is not None and estimate.speedup_compile is not None
                            else None
                        ),
                        faster=judged.accepted and standing(judged) == "faster",
                        left=None if headroom is None else headroom.left,
                        commit=commit,
                    )
                )
            case RunFinished(outcome=outcome):
                ends = outcome
            case _:
                pass
    for row in sorted(rows, key=lambda row: row.turn):
        prompt = folder.path / "prompts" / f"{row.turn:03d}.json"
        read = len(prompt.read_text(encoding="utf-8")) // _PER_TOKEN if prompt.is_file() else 0
        yield replace(
            row,
            tokens_in=read,
            tokens_out=written.get(row.turn, 0),
            calls=calls.get(row.turn, 0),
            outcome=ends,
        )


def kept() -> list[Row]:
    """The rows of all runs so far."""
    return kept_rows.read(RESULTS / "real_writer.jsonl", Row)


def next_at(clock: str, now: datetime) -> datetime:
    """When it is next `clock` (HH:MM); raises ValueError where that is no time of day."""
    at = datetime.strptime(clock, "%H:%M")
    today = now.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    return today if today > now else today + timedelta(days=1)


def main(words: Sequence[str] | None = None) -> None:
    """Put problems on the desk of an arm, or make the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("arm", choices=ARMS)
    running.add_argument("--desk", type=Path, required=True)
    running.add_argument("--kernelbench", type=Path, required=True)
    running.add_argument(
        "--until",
        type=lambda clock: next_at(clock, datetime.now()),
        help="begin no problem after this time of day (HH:MM), which may be tomorrow's",
    )
    running.add_argument("--only", nargs="*", default=[])
    tabling = commands.add_parser("table")
    tabling.add_argument("--write", action="store_true")
    given = parser.parse_args(words)
    if given.command == "table":
        text = page(kept())
        if given.write:
            (RESULTS / "real_writer.md").write_text(text, encoding="utf-8")
        print(text)
        return
    arm = ARMS[given.arm]
    there = {(row.arm, row.problem) for row in kept()}
    for asked in wanted(given.only):
        if given.until is not None and datetime.now() >= given.until:
            continue
        if (arm.name, asked.name) in there:
            continue
        rows = run(arm, asked, given.desk.resolve(), given.kernelbench)
        kept_rows.append(RESULTS / "real_writer.jsonl", *rows)
        print(f"{arm.name} {asked.name}: {[row.verdict for row in rows]}", flush=True)
    (given.desk / arm.name / "ALL_DONE").write_text("", encoding="utf-8")


if __name__ == "__main__":
    main()
