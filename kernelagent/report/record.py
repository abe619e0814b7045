"""The run as one JSON object: `report.json`, and what `optimize --json` prints."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelagent.config import RunConfig
from kernelagent.events import RunFinished
from kernelagent.history import Turn
from kernelagent.records import from_data, to_data
from kernelagent.reproduce import recheck_command
from kernelagent.state import RunState

SCHEMA = "kernelagent.report/1"


def result_record(state: RunState, run: Path) -> dict[str, Any]:
    """The run as one JSON object, whose folder is `run`."""
    finished = state.finished or RunFinished("interrupted", 130, "the run did not end in order")
    best = state.winner_turn if state.emitted else None
    return {
        "schema": SCHEMA,
        "run": state.run,
        "folder": str(run),
        "outcome": finished.outcome,
        "exit_status": finished.exit_status,
        "why": finished.why,
        "problem": to_data(state.facts) if state.facts else None,
        "device": to_data(state.device) if state.device else None,
        "module": state.emitted,
        "best_turn": best,
        "winner": to_data(state.winner) if state.winner else None,
        "turns": [_turn_row(turn) for turn in state.history.turns],
        "spent": asdict(state.spent) | {"wall_s": state.last_s - state.started_s},
        "config": state.config,
        "versions": state.versions,
        "reproduce": reproduce_command(state),
    }


def _turn_row(turn: Turn) -> dict[str, Any]:
    evaluation = turn.evaluation
    reason = evaluation.reason if evaluation else None
    return {
        "turn": turn.index,
        "parent": turn.request.parent,
        "kind": turn.request.kind,
        "model": turn.request.model,
        "candidate": turn.candidate.id if turn.candidate else None,
        "verdict": evaluation.verdict if evaluation else ("void" if turn.void else "pending"),
        "reason": to_data(reason) if reason else None,
        "timing": to_data(evaluation.timing) if evaluation and evaluation.timing else None,
        "estimate": to_data(evaluation.estimate) if evaluation and evaluation.estimate else None,
        "reward": turn.reward,
        "seconds": sum(stage.seconds for stage in evaluation.stages) if evaluation else 0.0,
    }


def reproduce_command(state: RunState) -> str | None:
    """The one command that gives the verdict and the number again; None where nothing was written."""
    if state.problem is None or state.emitted is None:
        return None
    return recheck_command(state.problem, from_data(state.config, RunConfig), Path(state.emitted))
