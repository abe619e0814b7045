"""The words on the run's screen: best, spend, what is happening; text in, no widget in sight."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from rich.text import Text

from kernelagent.domain.configuration.budget import RUN_LIMITS, Budget
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.serialization import from_data
from kernelagent.storage.git_history import harmless
from kernelagent.storage.run_state import RunState
from kernelagent.tui.view import View

_STAGE_MARKS = {"passed": "✓", "failed": "✗", "skipped": "–"}


def large_number(view: View) -> str:
    """The best speedup or estimate in large type; `-` while there is none."""
    shown = view.shown
    if shown is None:
        return "-"
    _, result, _ = shown
    if result.timing is not None:
        return f"{result.timing.speedup_eager.value:.2f}x"
    if result.estimate is not None:
        return f"{result.estimate.ratio:.2f}x"
    return "-"


def best_title(view: View) -> str:
    """What stands over the large number; an estimate is called one there too."""
    shown = view.shown
    estimated = shown is not None and shown[1].estimate is not None
    return "best so far, an ESTIMATE" if estimated else "best so far"


def best_text(view: View) -> Text:
    """What the large number is: interval and baseline, or that it is an estimate; turn; device."""
    shown = view.shown
    if shown is None:
        return Text("no turn accepted yet", "dim")
    turn, result, again = shown
    text = _kind(result)
    doubt = "judged again" if again else "not yet judged again"
    text.append(f"\nturn {turn}, {doubt}", "dim")
    return text


def _kind(evaluation: Evaluation) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    if evaluation.timing is not None:
        ratio, compiled = evaluation.timing.speedup_eager, evaluation.timing.speedup_compile
        text.append("measured", "bold").append(f" vs eager [{ratio.low:.2f}, {ratio.high:.2f}]")
        if compiled is not None:
            words = f"vs compile {compiled.value:.2f}× [{compiled.low:.2f}, {compiled.high:.2f}]"
            text.append(f"\n{words}")
    elif evaluation.estimate is not None:
        e = evaluation.estimate
        text.append(" ESTIMATE ", "bold reverse").append(" vs eager, not timed")
        text.append(f"\n{e.candidate_us:.1f} µs, eager {e.eager_us:.1f} µs")
    else:
        text.append("correct; neither timed nor estimated", "bold")
    return text


def device_text(state: RunState) -> str:
    """Where the number holds."""
    if state.device is None:
        return "device not known yet"
    return f"{state.device.kind}: {state.device.name}"


def limits_of(state: RunState) -> Budget:
    """The limits in force; raises `UsageError` on a configuration of another version."""
    try:
        config = from_data(state.config, RunConfig)
    except ValueError as error:
        raise UsageError(f"the run's configuration cannot be read here: {error}") from error
    return state.steering.raised(config.budget)


_SHORT_AMOUNTS: dict[str, Callable[[float], str]] = {
    "dollars": "${:.2f}".format,
    "minutes": lambda used: clock_text(used * 60 + 1e-6),
    "device_seconds": "judge {:.0f} s".format,
}
"""How amounts are shortened that are not a number behind their unit."""


def spend_text(view: View, limits: Budget, seconds: float, width: int) -> Text:
    """Spent against each limit, with a bar where there is a limit."""
    spent = view.state.spent
    text = Text(no_wrap=True, overflow="ellipsis")
    room = 8 if width >= 100 else 5
    for limit in RUN_LIMITS.values():
        amount, most = limit.used(spent, seconds), getattr(limits, limit.name)
        if text:
            text.append("  ")
        short = _SHORT_AMOUNTS.get(limit.name)
        text.append(f"{limit.unit} {short_count(amount)}" if short is None else short(amount))
        if most is not None:
            text.append(f"/{short_count(most)} ")
            text.append(bar(amount / most if most else 1.0, room))
    if spent.unpriced_tokens:
        text.append(f"  {short_count(spent.unpriced_tokens)} tokens unpriced", "yellow")
    return text


def bar(share: float, cells: int) -> Text:
    """A bar that is read without colour; it says so when the limit is passed."""
    full = min(cells, int(share * cells + 1e-9))
    style = "bold red" if share >= 1 else "yellow" if share > 0.8 else "green"
    return Text("█" * full, style) + Text("░" * (cells - full), "dim")


def short_count(count: float) -> str:
    """1234 as `1.2k`."""
    if count < 1000:
        return f"{count:g}"
    return f"{count / 1000:.1f}k" if count < 1e6 else f"{count / 1e6:.1f}M"


def clock_text(seconds: float) -> str:
    """`1:02:03`, or `2:03` below an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def title_text(view: View, live: bool) -> str:
    """Problem, run, and how it stands."""
    state = view.state
    problem = state.facts.name if state.facts else state.problem.label if state.problem else ""
    return f" {problem}  {state.run}  {standing(view, live)}"


def standing(view: View, live: bool) -> str:
    """In two words how the run stands."""
    if view.finished is not None:
        word = {
            "better": "DONE: better module",
            "not_faster": "DONE: right, not faster",
            "none": "DONE: none better",
        }
        return word.get(view.finished.outcome, view.finished.outcome.upper())
    if not live:
        return "NOT RUNNING (no end in its log)"
    return "PAUSED" if view.paused else "RUNNING"


def now_text(view: View, live: bool, now_s: float, width: int, height: int) -> Text:
    """What is happening, what the user has said, and the end of the reply or of the messages."""
    head = Text().append_text(_happening(view, live, now_s))
    for note in _steering(view):
        head.append(f"\n{note}", "magenta")
    if view.stages and view.finished is None:
        done = "  ".join(
            f"{_STAGE_MARKS[stage.status]} {stage.name} {stage.seconds:.1f} s"
            for stage in view.stages[-4:]
        )
        head.append(f"\n{done}", "dim")
    taken = sum(1 + len(line) // max(1, width) for line in head.plain.split("\n"))
    left = max(0, height - taken)
    text = view.arriving.get(view.active, "") if view.active is not None else ""
    tail = _tail([text], left, width, _folded) if text else _tail(view.lines, left, width, _wrapped)
    if tail:
        head.append("\n" + "\n".join(tail), "" if text else "dim")
    return head


def _happening(view: View, live: bool, now_s: float) -> Text:
    if view.finished is not None:
        return Text(f"finished: {harmless(view.finished.why)}", "bold")
    if not live:
        return Text("nobody is writing this run; `optimize --resume` goes on with it", "bold")
    waited = f" ({clock_text(max(0.0, now_s - view.since_s))})" if view.since_s else ""
    turn = view.active
    if turn is not None and turn in view.arriving:
        characters = view.characters.get(turn, 0)
        return Text(f"● turn {turn}: reply arriving, {characters:,} characters", "bold")
    doing = view.doing or "working"
    where = f"turn {turn}: " if turn is not None and "turn" not in doing else ""
    return Text(f"{'‖' if view.paused else '●'} {where}{doing}{waited}", "bold")


def _steering(view: View) -> list[str]:
    steering = view.state.steering
    notes = [f"hint for the next turn: {harmless(hint)}" for hint in steering.hints]
    if steering.pinned is not None:
        notes.append(f"⚑ parent of the next turns: {steering.pinned}")
    notes += [f"ruled out: {harmless(ban)}" for ban in steering.bans[-3:]]
    return notes


def _tail(
    texts: Sequence[str], count: int, width: int, fold: Callable[[str, int], list[str]]
) -> list[str]:
    """The last `count` lines of the texts at this width; what is above them is not looked at."""
    rows: list[str] = []
    for text in reversed(texts):
        for line in reversed(harmless(text).split("\n")):
            if len(rows) >= count:
                break
            rows += reversed(fold(line, max(1, width)))
    return rows[:count][::-1]


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width) or [""]


def _folded(line: str, width: int) -> list[str]:
    return [line[at : at + width] for at in range(0, len(line), width)] or [""]
