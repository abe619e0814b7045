"""One line for each event and each verdict: the same words on the terminal, in the TUI, the log and the reports."""

from __future__ import annotations

from dataclasses import dataclass

from kernelagent.domain.better import perhaps_behind
from kernelagent.domain.evaluation import WITHOUT_ESTIMATE, Estimate, Evaluation
from kernelagent.domain.events import (
    BestChanged,
    CandidatesRanked,
    Evaluated,
    Logged,
    ModelExhausted,
    ModuleEmitted,
    ProblemDescribed,
    Remarked,
    ReplyProgressed,
    ReplyReceived,
    RunFinished,
    RunResumed,
    RunStarted,
    ServerProgress,
    StageFinished,
    StageProgressed,
    Steered,
    ToolCalled,
    TurnStarted,
    TurnVoid,
    WholeModelChecked,
    WinnerMeasured,
)
from kernelagent.prompts.beginning import asked_line, problem_line
from kernelagent.prompts.ranking import ranking_text
from kernelagent.prompts.tools.tool_answers import result_summary


@dataclass
class Pace:
    """How far a run is, and how long the rest may take at the pace so far; times are the events'."""

    turns: int | None = None
    begun_s: float | None = None
    done: int = 0
    minutes: float | None = None

    def see(self, logged: Logged) -> None:
        """Take an event into account."""
        match logged.event:
            case RunStarted() as e:
                self.turns = _whole(e.config.get("turns"))
                minutes = e.config.get("budget_minutes")
                self.minutes = float(minutes) if isinstance(minutes, int | float) else None
            case TurnStarted() if self.begun_s is None:
                self.begun_s = logged.time_s
            case Evaluated() | TurnVoid():
                self.done += 1
            case _:
                pass

    def left(self, now_s: float) -> str | None:
        """`2 of at most 20 turns done, about 4 min left at this pace`; None before there is anything to say."""
        if self.begun_s is None or self.turns is None or self.turns <= 1:
            return None
        place = f"{min(self.done, self.turns)} of at most {self.turns} turns done"
        if self.done == 0 or self.done >= self.turns:
            return place
        left = _duration(self.seconds_left(now_s))
        return f"{place}, {left} left at this pace, then the best is judged again"

    def seconds_left(self, now_s: float) -> float:
        """At most, at the pace so far; 0 before a turn has ended."""
        if self.begun_s is None or self.turns is None or self.done == 0:
            return 0.0
        gone = now_s - self.begun_s
        rest = gone / self.done * max(0, self.turns - self.done)
        return rest if self.minutes is None else min(rest, max(0.0, self.minutes * 60 - gone))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _duration(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {max(seconds, 1):.0f} s"


def line_for(logged: Logged) -> str | None:
    """The line an event is worth, if any."""
    match logged.event:
        case RunStarted() as e:
            asked = asked_line(e.config)
            first = f"run {e.run}: {problem_line(e.problem, e.names)}"
            return first if asked is None else f"{first}\n{asked}"
        case ProblemDescribed() as e:
            sets = "; ".join(
                f"forward{s.arguments}"
                + ("" if s.name == "default" else f" (input set {s.name!r})")
                for s in e.facts.input_sets
            )
            return (
                f"problem {e.facts.name}: {sets}\n"
                f"device {e.device.kind} ({e.device.name}), sandbox: {e.sandbox}"
            )
        case RunResumed() as e:
            torn = f"; its last line, {e.torn_bytes} bytes, was torn and is cut off"
            return "the run goes on" + (torn if e.torn_bytes else "")
        case ReplyReceived(remark=str(remark)):
            return f"warning: {remark}"
        case TurnVoid() as e:
            return f"turn {e.turn}: nothing to evaluate: {e.why}"
        case ToolCalled() as e:
            return f"turn {e.turn}: {tool_line(e)}"
        case CandidatesRanked() as e:
            return f"turn {e.turn}: {ranking_text(e)}"
        case Evaluated() as e:
            return f"turn {e.turn}: {summary(e.evaluation)}"
        case BestChanged() as e:
            return f"turn {e.turn} is the best so far"
        case ModelExhausted() as e:
            return f"{e.model}: {e.message}"
        case WinnerMeasured() as e:
            return f"turn {e.turn} again, with fresh inputs: {summary(e.evaluation)}"
        case ModuleEmitted() as e:
            if e.of_a_part:
                return f"written, for the whole model to be tried with it: {e.path}"
            return f"written: {e.path}"
        case Remarked() as e:
            return f"{e.level}: {e.message}"
        case ServerProgress() as e:
            return server_line(e)
        case Steered() as e:
            return steered_text(e)
        case RunFinished(outcome="failed"):
            # The command says it once, as its last word.
            return None
        case RunFinished() as e:
            return f"finished: {e.why}"
        case WholeModelChecked() as e:
            taken = "" if e.whole.right else "; the written file is taken away again"
            return f"in the whole model: {e.whole.why}{taken}"
        case _:
            return None


def tool_line(called: ToolCalled) -> str:
    """A call of a tool and what came of it, in one line."""
    tool = f"{shortened(called.call.tool, 40)} {called.number}"
    if called.result is None:
        return f"{tool} refused: {called.answer}"
    return f"{tool}: {shortened(result_summary(called.result), 240)}"


def doing_after(logged: Logged) -> str | None:
    """What is happening now that this event is over."""
    match logged.event:
        case RunStarted():
            return "reading the problem"
        case ProblemDescribed() | Evaluated() | TurnVoid() | BestChanged() | ModelExhausted():
            return "choosing what to ask"
        case Steered(act="pause", refused=None):
            return "paused"
        case TurnStarted():
            return "asking the model"
        case ToolCalled() as e:
            return f"turn {e.turn} is being written: {shortened(e.call.tool, 40)} was answered"
        case ReplyProgressed() as e:
            return f"turn {e.turn} is being written: {e.characters} characters so far"
        case ReplyReceived() | CandidatesRanked():
            return "judging the candidate"
        case StageFinished() as e:
            return f"judging turn {e.turn}: {e.stage.name} done"
        case StageProgressed() as e:
            verb = {"measure": "measuring"}.get(e.stage, e.stage)
            return f"judging turn {e.turn}: {verb} block {min(e.done + 1, e.of)} of {e.of}"
        case ServerProgress(phase="starting" | "waiting") as e:
            return f"starting {e.model}"
        case WinnerMeasured() | ModuleEmitted():
            return "writing the module"
        case RunFinished() | WholeModelChecked():
            return None
        case _:
            return "working"


def server_line(progress: ServerProgress) -> str:
    """One line about a model server that this run started."""
    after = f": {progress.detail}" if progress.detail else ""
    match progress.phase:
        case "starting":
            return f"{progress.model} is being started{after}"
        case "waiting":
            return f"{progress.model} is not ready after {progress.seconds:.0f} s{after[:160]}"
        case "ready":
            return f"{progress.model} is ready after {progress.seconds:.1f} s{after}"
        case "stopped":
            return f"{progress.model} is stopped{after}"


def steered_text(event: Steered) -> str:
    """One line: what the user did, or asked for in vain."""
    limits = ", ".join(f"{name.replace('_', ' ')} {v:g}" for name, v in event.limits.items())
    what = limits or event.text or ("" if event.turn is None else f"turn {event.turn}")
    did = f"user: {event.act}" + (f": {what}" if what else "")
    return did if event.refused is None else f"{did}: refused: {event.refused}"


_WHY = 160
"""Characters of why there is no estimate."""


def summary(evaluation: Evaluation) -> str:
    """One line: verdict, and the number with its baseline, interval or label."""
    if evaluation.reason is not None:
        first = evaluation.reason.message.splitlines()[0]
        return f"{evaluation.verdict} ({evaluation.reason.code}): {shortened(first, 240)}"
    trials = evaluation.correctness.trials if evaluation.correctness else 0
    return f"accepted on {trials} trials; {number(evaluation)}"


def shortened(text: str, most: int) -> str:
    """At most so many characters, ended between two words: half a number is another number."""
    if len(text) <= most:
        return text
    return f"{text[:most].rpartition(' ')[0] or text[: most - 1]} …"


def number(evaluation: Evaluation) -> str:
    """The speedup with its interval and baseline, or the estimate called so, or that there is neither."""
    if evaluation.timing is not None:
        t = evaluation.timing
        text = (
            f"{t.speedup_eager.value:.2f}× eager "
            f"[{t.speedup_eager.low:.2f}, {t.speedup_eager.high:.2f}] on {evaluation.device.name}"
        )
        if t.speedup_compile is not None:
            c = t.speedup_compile
            text += f", {c.value:.2f}× torch.compile [{c.low:.2f}, {c.high:.2f}]"
        return text
    if evaluation.estimate is not None:
        e = evaluation.estimate
        return (
            f"not timed; estimate {e.candidate_us:.1f} µs, eager {e.eager_us:.1f} µs{_compiled(e)}, on "
            f"{evaluation.device.name} (bound by {e.bound})"
        )
    whys = (d.message for d in evaluation.disclosures if d.code in WITHOUT_ESTIMATE)
    why = next(whys, None)
    return "not timed, no estimate" + (
        f" ({shortened(why.removeprefix('no estimate: '), _WHY)})" if why else ""
    )


def _compiled(estimate: Estimate) -> str:
    """What torch.compile is estimated to take, and a warning where that may be as little."""
    if estimate.compile is None:
        return ""
    warning = perhaps_behind(estimate)
    near = f" ({warning})" if warning is not None else ""
    return f", torch.compile {estimate.compile.value:.1f} µs{near}"
