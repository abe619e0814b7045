"""Runs as training data: multi-turn trajectories, what each turn was worth, and which are learnt from.

`kernelagent export RUN...`. Everything comes from the run's own log. What
leaves is the problem as models were shown it, replies and feedback; nothing of the configuration,
no path, no key, and no line that looks like a secret.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.history import History, Message, Turn
from kernelagent.domain.serialization import to_data
from kernelagent.domain.tables.export_formats import format_called
from kernelagent.prompts import render_prompt
from kernelagent.prompts.repeats import normal_form
from kernelagent.report.terminal.browse import contents_of
from kernelagent.storage.run_log import RunFolder
from kernelagent.storage.run_state import RunState
from kernelagent.storage.scrubbing import Scrubber
from kernelagent.training.advantages import returns
from kernelagent.training.environment import info_of

SCHEMA = "kernelagent.trajectory/1"
Masked = Literal["void", "regressed", "not_judged", "prs"]


@dataclass(frozen=True)
class Choice:
    """Which turns are learnt from, and which trajectories leave at all."""

    prs: bool = False
    """Mask correct turns by their keep probability, drawn with `seed`."""
    near_duplicates: float | None = None
    """Drop a trajectory whose programs are this similar (0 to 1) to an earlier one's; None: none."""
    mask_regressed: bool = True
    seed: int = 0


@dataclass(frozen=True)
class ExportedTurn:
    """One turn of a trajectory."""

    turn: int
    messages: tuple[Message, ...]
    """The prompt as this turn's model saw it."""
    reply: str
    feedback: str
    reward: float
    return_: float
    """Reward to go, undiscounted (γ = 1)."""
    verdict: str
    code: str | None
    coverage: float
    speedup: float | None
    keep_probability: float
    loss_mask: bool
    """True: learnt from."""
    masked: Masked | None
    logprobs: tuple[float, ...] | None = None
    """By token of the reply, where the endpoint gave them; this version's log has none."""


@dataclass(frozen=True)
class Trajectory:
    """The turns of one trajectory of a run, in order."""

    run: str
    problem: str
    """The problem's name."""
    problem_sha256: str
    trajectory: int
    device: DeviceFacts
    turns: tuple[ExportedTurn, ...]
    schema: str = SCHEMA


@dataclass(frozen=True)
class Dropped:
    """One thing that did not leave, and why."""

    run: str
    what: str
    why: str


@dataclass(frozen=True)
class Export:
    """All that leaves, and the statement of what does not."""

    trajectories: tuple[Trajectory, ...]
    dropped: tuple[Dropped, ...]
    masked: dict[str, int] = field(default_factory=dict)
    """Turns not learnt from, by reason; they stay in their trajectories as context."""
    redacted: int = 0
    """Places where something that looks like a secret or a path was taken out."""
    schema: str = "kernelagent.export/1"


def export(runs: Sequence[RunFolder], choice: Choice = Choice()) -> Export:
    """The trajectories of `runs`, in order; raises `UsageError` on a log that is none."""
    cleaner = Scrubber()
    result: list[Trajectory] = []
    dropped: list[Dropped] = []
    for run in runs:
        state = contents_of(run.log).state
        if state.facts is None or state.device is None:
            dropped.append(Dropped(run.id, "the whole run", "its problem was never read"))
            continue
        result += _of_run(run.id, state, choice, cleaner, dropped)
    if choice.near_duplicates is not None:
        result = list(_distinct(result, choice.near_duplicates, dropped))
    masks: Counter[str] = Counter(u.masked for t in result for u in t.turns if u.masked is not None)
    return Export(tuple(result), tuple(dropped), dict(masks), cleaner.taken)


def _of_run(
    run: str, state: RunState, choice: Choice, cleaner: Scrubber, dropped: list[Dropped]
) -> Iterator[Trajectory]:
    for turn in state.history.pending:
        dropped.append(Dropped(run, f"turn {turn.index}", "it was never answered or never judged"))
    by_trajectory: dict[int, list[Turn]] = {}
    for turn in state.history.finished:
        by_trajectory.setdefault(turn.request.trajectory, []).append(turn)
    if not by_trajectory:
        dropped.append(Dropped(run, "the whole run", "it has no finished turn"))
    dice = random.Random(f"{choice.seed} {state.run}")
    for number, turns in sorted(by_trajectory.items()):
        assert state.facts is not None
        assert state.device is not None
        yield Trajectory(
            run=run,
            problem=cleaner.clean(state.facts.name),
            problem_sha256=state.facts.sha256,
            trajectory=number,
            device=state.device,
            turns=tuple(_turns(state, turns, choice, cleaner, dice)),
        )


def _turns(
    state: RunState,
    turns: Sequence[Turn],
    choice: Choice,
    cleaner: Scrubber,
    dice: random.Random,
) -> Iterator[ExportedTurn]:
    assert state.facts is not None
    assert state.device is not None
    gains = returns([turn.reward for turn in turns])
    best = 0.0
    for turn, gain in zip(turns, gains, strict=True):
        before = History(tuple(t for t in state.history.turns if t.index < turn.index))
        shown = render_prompt(state.facts, state.device, before, turn.request)
        info = info_of(turn)
        masked = _why_masked(turn, best, choice, dice)
        best = max(best, turn.reward)
        yield ExportedTurn(
            turn=turn.index,
            messages=tuple(Message(m.role, cleaner.clean(m.content)) for m in shown),
            reply=cleaner.clean(turn.reply or ""),
            feedback=cleaner.clean(turn.feedback),
            reward=turn.reward,
            return_=gain,
            verdict=info.verdict,
            code=info.code,
            coverage=info.coverage,
            speedup=info.speedup,
            keep_probability=info.keep_probability,
            loss_mask=masked is None,
            masked=masked,
        )


def _why_masked(
    turn: Turn, best_before: float, choice: Choice, dice: random.Random
) -> Masked | None:
    """Void: no candidate. Regressed: below the best reward its trajectory had reached before.

    One draw for every turn, so that masking one moves no other's.
    """
    drawn, info = dice.random(), info_of(turn)
    if turn.evaluation is None:
        return "void"
    if not info.learn:
        return "not_judged"
    if choice.mask_regressed and turn.reward < best_before:
        return "regressed"
    return "prs" if choice.prs and drawn >= info.keep_probability else None


def _distinct(
    trajectories: Sequence[Trajectory], similarity: float, dropped: list[Dropped]
) -> Iterator[Trajectory]:
    """Trajectories whose programs, as sets of runs of 12 words in normal form, are not near an earlier one's."""
    kept: list[tuple[Trajectory, frozenset[str]]] = []
    for trajectory in trajectories:
        lines = _program_lines(trajectory)
        near = next(
            (
                earlier
                for earlier, others in kept
                if earlier.problem_sha256 == trajectory.problem_sha256
                and _jaccard(lines, others) >= similarity
            ),
            None,
        )
        if near is None:
            kept.append((trajectory, lines))
            yield trajectory
        else:
            what = f"trajectory {trajectory.trajectory}"
            why = f"near duplicate of run {near.run}, trajectory {near.trajectory}"
            dropped.append(Dropped(trajectory.run, what, why))


def _program_lines(trajectory: Trajectory) -> frozenset[str]:
    from kernelagent.domain.candidate import Candidate, parse_reply

    parsed = (parse_reply(turn.reply) for turn in trajectory.turns)
    sources = (result.source for result in parsed if isinstance(result, Candidate))
    return frozenset(piece for source in sources for piece in _pieces(normal_form(source)))


def _pieces(form: str, size: int = 12) -> Iterator[str]:
    """Overlapping runs of `size` words: near duplicates share most of them."""
    words = form.replace("(", " ").replace(",", " ").split()
    for at in range(max(1, len(words) - size + 1)):
        yield " ".join(words[at : at + size])


def _jaccard(first: frozenset[str], other: frozenset[str]) -> float:
    return len(first & other) / len(first | other) if first or other else 1.0


def rows(exported: Export, form: str) -> list[dict[str, Any]]:
    """Rows of a format of turns (`domain.export_formats`); raises `UsageError` for an unknown one.

    A turn's prompt is not always its predecessor's with more added (the window moves), so trainers
    that want one prompt and one completion get each turn by itself.
    """
    result: list[dict[str, Any]] = format_called(form).made_by()(exported)
    return result


def jsonl_rows(exported: Export) -> list[dict[str, Any]]:
    """A row for each trajectory."""
    return [to_data(trajectory) for trajectory in exported.trajectories]


def trl_rows(exported: Export) -> list[dict[str, Any]]:
    """A row for each turn that is learnt from."""
    return [_trl(trajectory, turn) for trajectory, turn in _learnt(exported)]


def verl_rows(exported: Export) -> list[dict[str, Any]]:
    """A row for each turn that is learnt from, numbered."""
    return [_verl(item, turn, index) for index, (item, turn) in enumerate(_learnt(exported))]


def _learnt(exported: Export) -> Iterator[tuple[Trajectory, ExportedTurn]]:
    for trajectory in exported.trajectories:
        for turn in trajectory.turns:
            if turn.loss_mask:
                yield trajectory, turn


def _trl(trajectory: Trajectory, turn: ExportedTurn) -> dict[str, Any]:
    """Prompt and completion as conversations, TRL's standard form, with the turn's numbers beside."""
    return {
        "prompt": [to_data(message) for message in turn.messages],
        "completion": [{"role": "assistant", "content": turn.reply}],
        **_numbers(trajectory, turn),
    }


def _verl(trajectory: Trajectory, turn: ExportedTurn, index: int) -> dict[str, Any]:
    return {
        "data_source": "kernelagent",
        "prompt": [to_data(message) for message in turn.messages],
        "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": trajectory.problem_sha256},
        "extra_info": {
            "index": index,
            "split": "train",
            "response": turn.reply,
            **_numbers(trajectory, turn),
        },
    }


def _numbers(trajectory: Trajectory, turn: ExportedTurn) -> dict[str, Any]:
    return {
        "run": trajectory.run,
        "problem": trajectory.problem,
        "trajectory": trajectory.trajectory,
        "turn": turn.turn,
        "reward": turn.reward,
        "return": turn.return_,
        "verdict": turn.verdict,
        "coverage": turn.coverage,
        "keep_probability": turn.keep_probability,
    }


def statement(exported: Export, form: str) -> str:
    """What leaves, what was dropped and why; for a person, kept beside the data."""
    turns = sum(len(t.turns) for t in exported.trajectories)
    learnt = sum(turn.loss_mask for t in exported.trajectories for turn in t.turns)
    with_logprobs = sum(u.logprobs is not None for t in exported.trajectories for u in t.turns)
    lines = [
        f"{len(exported.trajectories)} trajectories, {turns} turns, {learnt} of them learnt from; "
        f"format {form}",
        *(f"masked, {why}: {count} turns" for why, count in sorted(exported.masked.items())),
        f"token log-probabilities: {with_logprobs} of {turns} turns (this log keeps none)",
        f"redacted: {exported.redacted} places that look like a secret or a path",
        f"dropped: {len(exported.dropped)}",
        *(f"  {item.run}: {item.what}: {item.why}" for item in exported.dropped),
    ]
    if form != "jsonl":
        lines.append("masked turns are no rows of their own; jsonl keeps them, with their mask")
    return "\n".join(lines) + "\n"


def as_lines(records: Sequence[dict[str, Any]]) -> str:
    """JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in records)
