"""The run for a reader who was not there: `report.md` and `report.json`, folded from its events."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelagent.config import RunConfig
from kernelagent.console import number, summary
from kernelagent.evaluation import Evaluation
from kernelagent.events import RunFinished
from kernelagent.history import Turn
from kernelagent.records import from_data, to_data
from kernelagent.reproduce import recheck_command
from kernelagent.runlog import RunFolder, read_events
from kernelagent.state import RunState, fold

SCHEMA = "kernelagent.report/1"
_NOT_VERIFIED_VIRTUAL = (
    "Nothing ran on a GPU: the kernels were compiled for {target} and executed by an interpreter. "
    "Speed, races between live programs, and the behaviour of real hardware were not verified."
)
_NEVER_VERIFIED = (
    "Shapes, dtypes and strides other than those listed; gradients; behaviour under autocast. "
    "The emitted module falls back to the original there."
)


def write_reports(folder: RunFolder) -> None:
    """Both reports into the run's folder, from its log alone."""
    state = fold(read_events(folder.log))
    record = result_record(state, folder.path)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (folder.path / "report.json").write_text(text, encoding="utf-8")
    (folder.path / "report.md").write_text(as_markdown(state), encoding="utf-8")


def result_record(state: RunState, run: Path) -> dict[str, Any]:
    """The run as one JSON object, the same for `report.json` and `optimize --json`."""
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
        "reproduce": _reproduce(state),
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


def as_markdown(state: RunState) -> str:
    """The report a colleague reads."""
    parts = [f"# kernelagent run {state.run}", _headline(state)]
    if state.facts is not None:
        parts.append(_problem(state))
    if state.winner is not None and state.winner.accepted:
        parts += [_verification(state.winner), _kernels(state.winner)]
    parts += [_history(state), _not_verified(state), _environment(state)]
    return "\n\n".join(parts) + "\n"


def _headline(state: RunState) -> str:
    if state.finished is None:
        return "The run did not end in order; its log is complete up to the last turn."
    if state.emitted is None or state.winner is None:
        return f"**No better module was written.** {state.finished.why}."
    word = "Verified, not timed" if state.winner.timing is None else "Verified, certified faster"
    return (
        f"**{word}:** `{state.emitted}`\n\n{number(state.winner)}.\n\nReproduce:\n\n"
        f"```console\n$ {_reproduce(state)}\n```"
    )


def _reproduce(state: RunState) -> str | None:
    if state.problem is None or state.emitted is None:
        return None
    return recheck_command(state.problem, from_data(state.config, RunConfig), Path(state.emitted))


def _problem(state: RunState) -> str:
    assert state.facts is not None
    lines = [f"## The problem: {state.facts.name}", ""]
    for one in state.facts.input_sets:
        shrunk = ", executed at reduced size" if one.executed is not None else ""
        lines.append(f"- input set `{one.name}`: forward{one.arguments}{shrunk}")
    lines += [f"- {remark.message}" for remark in state.facts.disclosures]
    return "\n".join(lines)


def _verification(winner: Evaluation) -> str:
    found = winner.correctness
    lines = ["## What was verified", ""]
    if found is not None:
        probes = sorted({case.probe for case in found.cases})
        lines.append(
            f"- {found.trials} calls with secret inputs compared with a float64 reference; worst "
            f"RMS error {found.error:.3g}, budget {found.budget:.3g} (in units the eager module's "
            f"own error sets)"
        )
        lines.append(f"- inputs: {', '.join(probes)}")
    for row in winner.input_sets:
        executed = f" (executed at {row.executed})" if row.executed else ""
        lines.append(f"- `{row.name}` {row.arguments}{executed}")
    lines.append(f"- policy `{winner.policy}`, sandbox {winner.sandbox}, {winner.precision}")
    lines += [f"- disclosed: {d.message}" for d in winner.disclosures]
    return "\n".join(lines)


def _kernels(winner: Evaluation) -> str:
    lines = [
        "## The kernels",
        "",
        "| kernel | launches | share | registers | spills | shared bytes | occupancy | bound |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for k in winner.kernels:
        share = "" if k.share_of_device_time is None else f"{k.share_of_device_time:.0%}"
        occupancy = "" if k.occupancy is None else f"{k.occupancy:.0%}"
        cells = (k.registers, k.spills, k.shared_bytes)
        shown = " | ".join("" if cell is None else str(cell) for cell in cells)
        lines.append(
            f"| `{k.name}` | {k.launches} | {share} | {shown} | {occupancy} | {k.bound or ''} |"
        )
    return "\n".join(lines)


def _history(state: RunState) -> str:
    lines = ["## The turns", "", "| turn | from | model | verdict |", "|---|---|---|---|"]
    for turn in state.history.turns:
        parent = "" if turn.request.parent is None else str(turn.request.parent)
        said = summary(turn.evaluation) if turn.evaluation else f"void: {turn.void or 'pending'}"
        said = said.replace("|", "\\|")
        lines.append(f"| {turn.index} | {parent} | {turn.request.model} | {said} |")
    spent = state.spent
    lines.append("")
    lines.append(
        f"Spent: {spent.turns} turns, {spent.tokens} tokens, {spent.dollars:.4f} dollars, "
        f"{state.last_s - state.started_s:.0f} s wall time."
    )
    return "\n".join(lines)


def _not_verified(state: RunState) -> str:
    lines = ["## What was not verified", "", f"- {_NEVER_VERIFIED}"]
    if state.device is not None and state.device.kind == "virtual":
        lines.append(f"- {_NOT_VERIFIED_VIRTUAL.format(target=state.device.target)}")
    lines += [f"- {text}" for text in state.remarks]
    return "\n".join(lines)


def _environment(state: RunState) -> str:
    lines = ["## Environment", ""]
    if state.device is not None:
        d = state.device
        lines.append(f"- device: {d.kind}, {d.name}, {d.target}, driver {d.driver or 'none'}")
    lines += [f"- {name} {text}" for name, text in state.versions.items()]
    return "\n".join(lines)
