"""When two runs are the same: their states, their files and what they paid, all but the time."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from kernelagent.domain.events import Evaluated, Event, Logged, ReplyReceived, TurnStarted
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.run_state import RunState, fold
from tests.loop.resume.recorded_run import EMITTED

RUN = "20260101-000000-toy-0000"
BATCHES = frozenset({"best-of-n", "chains"})
"""Strategies that ask for several turns at once."""


def events_of(run: Path) -> list[Logged]:
    return list(read_events(RunFolder(run).log))


def state_of(run: Path) -> RunState:
    """The folded state without its fields about time."""
    return replace(fold(events_of(run)), started_s=0.0, last_s=0.0, elapsed_s=0.0)


def files_of(run: Path) -> dict[str, bytes]:
    """Candidates, prompts, and the emitted module in both its places."""
    kept = [*run.glob("candidates/*"), *run.glob("prompts/*"), run / "module.py"]
    return {str(path.relative_to(run)): path.read_bytes() for path in kept} | {
        EMITTED: (run.parent / EMITTED).read_bytes()
    }


def prompts_of(run: Path) -> dict[int, str]:
    """By turn: the hash of the prompt it was asked with last."""
    asked = (logged.event for logged in events_of(run))
    return {event.turn: event.prompt_sha256 for event in asked if isinstance(event, TurnStarted)}


def differences(run: Path, whole: Path) -> list[str]:
    """What tells the resumed `run` from the uninterrupted one, by name; nothing should."""
    events = events_of(run)
    result, wanted = state_of(run), state_of(whole)
    same = {
        "a sequence number is missing": [e.sequence for e in events] == list(range(len(events))),
        "a logged reply was asked for again": at_most_once(events, ReplyReceived),
        "a logged evaluation was made again": at_most_once(events, Evaluated),
        "prompts": prompts_of(run) == prompts_of(whole),
        "files": files_of(run) == files_of(whole),
        "report": report_of(run) == report_of(whole),
    }
    same |= {
        f"state.{f.name}": getattr(result, f.name) == getattr(wanted, f.name)
        for f in fields(result)
    }
    return [name for name, holds in same.items() if not holds]


def at_most_once(events: list[Logged], kind: type[Event]) -> bool:
    turns = Counter(e.event.turn for e in events if isinstance(e.event, kind))
    return all(count == 1 for count in turns.values())


def report_of(run: Path) -> dict[str, Any]:
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    del report["folder"], report["spent"]["wall_s"]
    return dict(report)


def asked(run: Path) -> Counter[int]:
    """By turn: how many times the model was asked."""
    path = run / "asks.log"
    return Counter(map(int, path.read_text().split())) if path.exists() else Counter()


def answered(run: Path) -> frozenset[int]:
    """The turns whose reply is in the log."""
    if not RunFolder(run).log.exists():
        return frozenset()
    events = (logged.event for logged in events_of(run))
    return frozenset(event.turn for event in events if isinstance(event, ReplyReceived))
