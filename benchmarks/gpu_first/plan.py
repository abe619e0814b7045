"""Runs stages one after another, each in a process of its own and within its minutes.

A stage that has ended is not begun again; one that was interrupted is. What a stage leaves running
is ended with it and counted.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu_first.record import ENDED, Record, load, table, write_whole

ROOT = Path(__file__).resolve().parents[2]
_ADOPT_ORPHANS = 36
"""Linux's PR_SET_CHILD_SUBREAPER."""
_GRACE_S = 2.0


@dataclass(frozen=True)
class Stage:
    """One step of the plan."""

    number: int
    name: str
    title: str
    minutes: float
    """The most it may take."""
    work: str
    """`module:function`, called with the record and the options; returns the closing sentence."""
    needs_gpu: bool = True


@dataclass(frozen=True)
class Call:
    """What one call of the plan was asked for."""

    out: Path
    minutes: float | None = None
    """The most this call may take; a stage that does not fit into the rest is left to the next."""
    only: int | None = None
    """The stage to run, whether it has ended before or not."""
    options: dict[str, str] | None = None
    """Passed on to the stages."""
    slower: float = 1.0
    """How many times its minutes a stage may take: the machine is so much slower than a GPU's."""

    def seconds_for(self, stage: Stage) -> float:
        """The most a stage may take."""
        return stage.minutes * 60 * self.slower


def run(stages: Sequence[Stage], call: Call) -> int:
    """Run what is due; returns 0 when every stage asked for has finished, else 1."""
    began = time.monotonic()
    call.out.mkdir(parents=True, exist_ok=True)
    due = _due(stages, call)
    for stage in due:
        left = _left(call, began)
        needed = call.seconds_for(stage)
        if stage is not due[0] and left is not None and needed > left:
            print(
                f"{stage.number}. {stage.title}: needs {needed / 60:g} minutes and {left / 60:.1f} "
                f"are left; call again to go on with it",
                flush=True,
            )
            break
        record = _run(stage, call, left)
        print(f"{stage.number}. {stage.title}: {record.state}. {record.sentence}", flush=True)
        _overview(stages, call.out)
    if not due:
        print(f"every stage has ended; --stage N runs one again ({call.out})", flush=True)
    wanted = [s for s in stages if call.only is None or s.number == call.only]
    ended = [load(call.out, stem_of(stage)) for stage in wanted]
    return 0 if all(r is not None and r.state == "finished" for r in ended) else 1


def stem_of(stage: Stage) -> str:
    return f"{stage.number:02d}-{stage.name}"


def _due(stages: Sequence[Stage], call: Call) -> list[Stage]:
    """The stages that have not ended, in their order, or the one asked for."""
    if call.only is not None:
        return [stage for stage in stages if stage.number == call.only]
    records = {stage: load(call.out, stem_of(stage)) for stage in stages}
    return [
        stage for stage, result in records.items() if result is None or result.state not in ENDED
    ]


def _left(call: Call, began: float) -> float | None:
    return None if call.minutes is None else call.minutes * 60 - (time.monotonic() - began)


def _run(stage: Stage, call: Call, left: float | None) -> Record:
    own = call.seconds_for(stage)
    limit = own if left is None else min(own, left)
    record = Record(str(call.out), stage.number, stage.name, stage.title, own / 60)
    record.save()
    began, others = time.monotonic(), _children(_parents(), os.getpid())
    log = call.out / f"{stem_of(stage)}.log"
    command = [sys.executable, "-m", "benchmarks.gpu_first.inside", str(call.out), stem_of(stage)]
    command += [stage.work, "gpu" if stage.needs_gpu else "any", json.dumps(call.options or {})]
    folders = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    with log.open("w", encoding="utf-8") as printed, _adopting():
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
            stdout=printed, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            status: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        except BaseException:
            _end_all(process, others)
            _kept(record).end("interrupted", "interrupted from outside", time.monotonic() - began)
            raise
        left_behind = _end_all(process, others)
    record, seconds = _kept(record), time.monotonic() - began
    if status is None:
        rows = f"{len(record.rows)} rows were written until then"
        record.end("stopped", f"stopped: it overran its {limit / 60:.3g} minutes; {rows}", seconds)
    elif record.state == "running":
        why = f"it ended with status {status}: {_last_line(log)}"
        record.end("failed", why, seconds)
    else:
        record.end(record.state, record.sentence, seconds)
    if status is not None and left_behind:
        record.note(f"{left_behind} processes that it had started were still there, and were ended")
    return record


def _kept(record: Record) -> Record:
    """As the stage's own process left it."""
    return load(Path(record.folder), record.stem) or record


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it printed nothing"


@contextmanager
def _adopting() -> Iterator[None]:
    """What a stage leaves behind becomes a child of this process instead of vanishing from sight."""
    libc = ctypes.CDLL(None)
    libc.prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_ADOPT_ORPHANS, 0, 0, 0, 0)


def _end_all(process: subprocess.Popen[bytes], others: set[int]) -> int:
    """End the stage and everything it has started; returns how many were there besides itself.

    `others`: children that this process had before.
    """
    before = _descendants(process.pid, others)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
        # Not `process.wait()`: a signal that interrupted it may have left its lock taken.
        with suppress(ChildProcessError):
            os.waitpid(process.pid, 0)
    # Judges end their processes themselves when the line to them is closed.
    deadline = time.monotonic() + _GRACE_S
    while (alive := _alive(before)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in alive:
        _kill(pid)
    deadline = time.monotonic() + _GRACE_S
    while _alive(before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(alive)


def _descendants(stage: int, others: set[int]) -> set[int]:
    """Processes below the stage and, once it is gone, those that this process has adopted."""
    parents = _parents()
    below: set[int] = set()
    waiting = [stage, *_children(parents, os.getpid()) - others]
    while waiting:
        pid = waiting.pop()
        below |= {pid}
        waiting += _children(parents, pid) - below
    return below - {stage}


def _parents() -> dict[int, int]:
    """Every process of the machine and its parent."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                # It has ended meanwhile.
                continue
            parents[int(entry.name)] = int(text.rpartition(")")[2].split()[1])
    return parents


def _children(parents: dict[int, int], of: int) -> set[int]:
    return {pid for pid, parent in parents.items() if parent == of}


def _alive(pids: set[int]) -> list[int]:
    """Those that are there; whoever is only waiting to be asked for its status is asked."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
    return [pid for pid in pids if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _overview(stages: Sequence[Stage], out: Path) -> None:
    """`plan.md`: every stage in one line."""
    rows = []
    for stage in stages:
        record = load(out, stem_of(stage))
        state, sentence = (record.state, record.sentence) if record else ("", "")
        seconds = f"{record.seconds:.0f}" if record and record.seconds else ""
        rows.append([stage.number, stage.title, f"{stage.minutes:g}", state, seconds, sentence])
    lines = [
        "# The first thirty minutes on a GPU",
        "",
        "`python -m benchmarks.gpu_first`: each stage in a process of its own, stopped when its minutes "
        "are over; its table stands beside this page under its number.",
        "",
        *table(["", "stage", "minutes", "state", "seconds", "how it ended"], _texts(rows)),
    ]
    write_whole(out / "plan.md", "\n".join(lines) + "\n")


def _texts(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in rows]
