"""The history of a run: its curve, its tree, and each turn to be opened."""

from __future__ import annotations

from collections.abc import Sequence

from kernelagent.domain.configuration.budget import spent_text
from kernelagent.domain.events import Logged, ToolCalled
from kernelagent.domain.history import Turn
from kernelagent.prompts.wording import shortened, tool_line
from kernelagent.report.charts.anytime import Labels, anytime_svg, anytime_text
from kernelagent.report.charts.tree import Node, tree_svg, tree_text
from kernelagent.report.document import (
    Block,
    Bullets,
    Chart,
    Code,
    Folded,
    Mono,
    Paragraph,
    Strong,
    Words,
    present,
)
from kernelagent.report.evidence import kernels_table
from kernelagent.report.progress import Axis, Moment, curve, moments
from kernelagent.storage.git_history import hypothesis
from kernelagent.storage.run_state import RunState

TURNS_DRAWN = 120
"""Of a longer run the tree shows its two ends and what led to the best."""
TURNS_OPENED = 40
"""Of a longer run only the turns that led to the best, and the last ones, are given in full."""
_UNITS: dict[Axis, str] = {
    "turns": "turns",
    "tokens": "tokens, asked and answered",
    "dollars": "US dollars, where the price is known",
    "seconds": "seconds since the start",
}


def history(state: RunState, events: Sequence[Logged]) -> tuple[Block, ...]:
    """The curve against turns, and against tokens and dollars where a model charged them; the tree."""
    turns = state.history.turns
    if not turns:
        return (Paragraph("No turn was taken."),)
    result = moments(events)
    spent = state.spent
    axes: list[Axis] = ["turns", "seconds"]
    axes += ["tokens"] if spent.tokens else []
    axes += ["dollars"] if spent.dollars else []
    curves = [_curve(result, state, axis) for axis in axes]
    return present(
        Paragraph(f"Spent: {spent_text(state.spent, state.elapsed_s)}."),
        curves[0],
        Folded("The same curve against what was spent", tuple(curves[1:])),
        _tree(state),
        Paragraph("Each turn, with what the model wrote and what the judge answered:"),
        *(_opened(turn, state) for turn in _chosen(state, TURNS_OPENED)),
        _left_out(len(turns), TURNS_OPENED, "turns are given here in full"),
    )


def _curve(moments: Sequence[Moment], state: RunState, axis: Axis) -> Chart:
    timed = state.device is not None and state.device.kind == "cuda"
    labels = Labels(
        title=f"Best so far against {axis}",
        across=_UNITS[axis],
        up="measured speed, × eager" if timed else "estimate, × eager",
        warning=""
        if timed
        else "ESTIMATE, not timed: differences within its interval mean nothing",
        least_step=1.0 if axis in {"turns", "tokens"} else 0.0,
    )
    name = str(state.config.get("strategy") or "run")
    series = [curve(moments, name, axis)]
    text = f"{labels.title}\n{anytime_text(series, labels, width=64, height=12)}"
    return Chart(anytime_svg(series, labels), text)


def _tree(state: RunState) -> Chart:
    chosen = _chosen(state, TURNS_DRAWN)
    best = _best(state)
    nodes = [
        Node(t.index, t.request.parent, _verdict(t), _line(t), best=t.index == best) for t in chosen
    ]
    every = len(state.history.turns)
    title = "Turns, each below the one it refines"
    if len(chosen) < every:
        title = (
            f"{len(chosen)} of {every} turns: the first, the last, and those that led to the best"
        )
    return Chart(tree_svg(nodes, title=title), f"{title}\n{tree_text(nodes)}")


def _chosen(state: RunState, most: int) -> list[Turn]:
    """All turns, or of many the first, the last, and the ancestors of the best."""
    turns = state.history.turns
    if len(turns) <= most:
        return list(turns)
    by_number = {turn.index: turn for turn in turns}
    wanted: set[int] = set()
    at = _best(state)
    while at in by_number and len(wanted) < most // 2:
        wanted.add(at)
        at = by_number[at].request.parent
    half = (most - len(wanted)) // 2
    wanted |= {turn.index for turn in (*turns[:half], *turns[len(turns) - half :])}
    return [turn for turn in turns if turn.index in wanted]


def _best(state: RunState) -> int | None:
    if state.emitted is not None:
        return state.winner_turn
    best = state.history.best
    return None if best is None else best.index


def _left_out(every: int, most: int, what: str) -> Paragraph | None:
    if every <= most:
        return None
    message = f"At most {most} of the {every} {what}; the others are shown by "
    return Paragraph((message, Mono("kernelagent show"), "."))


def _verdict(turn: Turn) -> str:
    if turn.evaluation is not None:
        return turn.evaluation.verdict
    return "void" if turn.void is not None else "pending"


def _line(turn: Turn) -> str:
    """What was asked and what came of it, short enough for a row."""
    result = turn.evaluation
    if result is None:
        message = f"void: {turn.void}" if turn.void else "the log ends before its verdict"
    elif result.reason is not None:
        message = (
            f"{result.verdict}, {result.reason.code}: "
            f"{shortened(result.reason.message.splitlines()[0], 240)}"
        )
    elif result.timing is not None:
        r = result.timing.speedup_eager
        message = f"accepted, {r.value:.2f}× eager [{r.low:.2f}, {r.high:.2f}]"
    elif result.estimate is not None:
        message = f"accepted, estimate {result.estimate.candidate_us:.4g} µs"
    else:
        message = "accepted"
    return f"{turn.request.kind} ({turn.request.model}): {message}"


def _opened(turn: Turn, state: RunState) -> Folded:
    emitted = ", emitted" if state.emitted is not None and turn.index == state.winner_turn else ""
    origin = "" if turn.request.parent is None else f" from {turn.request.parent}"
    summary_words: Words = (Strong(f"Turn {turn.index}{origin}{emitted}"), f" · {_line(turn)}")
    result = turn.evaluation
    facts: list[Words] = []
    idea = hypothesis(turn.reply or "")
    if idea:
        facts.append(("Hypothesis: ", idea))
    if result is not None:
        facts.append(f"Reward, for training a model on runs: {turn.reward:.3g}")
    if turn.candidate is not None:
        facts.append(("Candidate ", Mono(turn.candidate.id)))
    code = None if turn.candidate is None else Code(turn.candidate.source, "python")
    return Folded(
        summary_words,
        present(
            Bullets(tuple(facts)) if facts else None,
            Code(turn.feedback) if turn.feedback else None,
            kernels_table(result.kernels) if result is not None and result.kernels else None,
            code,
            _calls(state.tool_calls.get(turn.index, ())),
        ),
    )


def _calls(calls: Sequence[ToolCalled]) -> Folded | None:
    """What was asked of the tools before the candidate was handed in."""
    if not calls:
        return None
    answers = [
        block
        for called in calls
        for block in (Paragraph((Strong(tool_line(called)),)), Code(called.answer))
    ]
    return Folded(f"{len(calls)} calls of tools before it", tuple(answers))
