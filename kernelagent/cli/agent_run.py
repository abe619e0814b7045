"""An ordinary run whose model is a coding agent: what the agent may ask of it, as data and words.

The loop runs in a thread; every question blocks until the run has an answer. No protocol is spoken here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import ExitStatus, KernelAgentError, UsageError
from kernelagent.domain.events import Logged, RunStarted, StageFinished, Subscriber
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.tool_calls import ToolCall
from kernelagent.loop.queries.exclusive_gpu import Judges
from kernelagent.loop.run import HERE, RunResult, optimize
from kernelagent.models.agent_model import AgentModel, as_reply
from kernelagent.models.kinds import MCP
from kernelagent.prompts import as_markdown
from kernelagent.prompts.wording import summary
from kernelagent.report.files import reports
from kernelagent.report.terminal.browse import run_view, turn_view
from kernelagent.storage.run_log import RunFolder, read_events


@dataclass(frozen=True)
class Submitted:
    """What became of one candidate."""

    turn: int
    verdict: str
    """`accepted`, `rejected`, `error` or `void`; `pending` while it is judged."""
    reason: str | None
    """The code of why it was not accepted; None otherwise."""
    findings: str
    """The evaluation and the profile in words, then what is asked next, or how the run ended."""
    best_turn: int | None
    turns_left: int | None
    over: bool
    """True: the budget is spent, nothing more can be submitted."""


@dataclass(frozen=True)
class Finished:
    """What the run came to."""

    outcome: str
    """`pending` while the best candidate is judged again."""
    exit_status: int | None
    why: str
    module: str | None
    """The file that was written, if any."""
    best_turn: int | None
    number: str | None
    """The re-measured number of the emitted module, with its label."""
    report: str
    """Its path; empty while the outcome is pending."""


_PENDING = Finished(
    outcome="pending",
    exit_status=None,
    why="the best candidate is judged again; call finish once more for what it came to",
    module=None,
    best_turn=None,
    number=None,
    report="",
)


class AgentRun:
    """A run in its own thread; safe to ask from any other."""

    def __init__(
        self,
        problem: ProblemSpec,
        config: RunConfig,
        *,
        folder: RunFolder | None = None,
        subscribers: Sequence[Subscriber] = (),
        stop_asked: Callable[[], bool] = lambda: False,
        judges: Judges = HERE,
    ) -> None:
        self._config = replace(config, model=(MCP,))
        self._folder = folder
        self._judges = judges
        self._stopping = Event()
        self._model = AgentModel(lambda: self._stopping.is_set() or stop_asked())
        self._result: RunResult | None = None
        self._error: BaseException | None = None
        self.doing = "opening the problem"
        """What the run does right now, for a client that waits."""
        watchers = (*subscribers, self._watch)
        self._thread = Thread(target=self._go, args=(problem, watchers), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def problem(self) -> str:
        """The prompt of the turn that waits for a candidate, whole."""
        ask = self._model.open_ask()
        if ask is None:
            return self._ended()
        return f"Turn {ask.turn}. {self._left(ask.turn)}\n\n{as_markdown(ask.messages)}"

    def submit(self, code: str, reasoning: str, *, wait: bool = True) -> Submitted:
        """Judge a candidate as the open turn; raises `UsageError` when no turn is open.

        Without `wait` it comes back at once, its verdict `pending`; `awaited` has what became of it.
        """
        ask = self._model.submit(as_reply(code, reasoning), wait=wait)
        if ask is None:
            gone = self._model.open_ask() is None
            raise UsageError(self._ended() if gone else "another candidate was handed in first")
        if wait:
            return self.awaited(ask.turn)
        best = run_view(self._opened()).row.best
        return Submitted(
            turn=ask.turn,
            verdict="pending",
            reason=None,
            findings=f"Turn {ask.turn} is being judged; await_turn with turn={ask.turn} waits for its verdict.",
            best_turn=best.turn if best is not None else None,
            turns_left=self._turns_left(ask.turn + 1),
            over=False,
        )

    def awaited(self, turn: int) -> Submitted:
        """What became of a turn, once it is settled; raises `UsageError` for one that waits for a candidate."""
        after = self._model.open_ask()
        if after is None:
            self._thread.join()
            self._raise()
        elif after.turn == turn:
            raise UsageError(f"turn {turn} waits for a candidate: hand one in first")
        view = turn_view(self._opened(), turn)
        reason = view.evaluation.reason if view.evaluation is not None else None
        best = run_view(self._opened()).row.best
        if after is None:
            findings = f"{view.feedback}\n\n{self._ended()}"
        elif after.turn != turn + 1:
            findings = view.feedback
        else:
            # The newest message is what the next prompt adds: the findings, then what is asked now.
            findings = after.messages[-1].content
        return Submitted(
            turn=turn,
            verdict=view.row.verdict,
            reason=reason.code if reason is not None else None,
            findings=findings,
            best_turn=best.turn if best is not None else None,
            turns_left=self._turns_left(turn + 1 if after is None else after.turn),
            over=after is None,
        )

    def call(self, call: ToolCall) -> str:
        """The answer of a tool before the open turn; raises `UsageError` when none is open."""
        ask = self._model.open_ask()
        if ask is None:
            raise UsageError(self._ended())
        if ask.tools is None:
            raise UsageError("this run offers no tools (--tool-calls 0)")
        return ask.tools.call(call).text

    def history(self) -> str:
        """One line a turn, and what the run holds so far."""
        self._model.open_ask()
        view = run_view(self._opened())
        lines = [f"run {view.row.run}: {len(view.turns)} turns, {view.row.accepted} accepted"]
        for row in view.turns:
            marks = ", best" if row.best else ""
            came = f" from turn {row.parent}" if row.parent is not None else ""
            lines.append(f"- turn {row.turn} ({row.kind}{came}{marks}): {row.text}")
        if self.over:
            lines.append(self._ended())
        return "\n".join(lines)

    def turn(self, index: int) -> str:
        """Code and findings of one turn; raises `UsageError` when there is none of that number."""
        self._model.open_ask()
        view = turn_view(self._opened(), index)
        code = f"```python\n{view.code}```" if view.code is not None else "(no code)"
        return f"Turn {index}: {view.row.verdict}\n{view.feedback}\n\n{code}"

    def report(self) -> str:
        """The report in Markdown, as far as the run has come."""
        folder = self._opened()
        return reports(list(read_events(folder.log)), folder.path)["report.md"]

    def finish(self, why: str, *, wait: bool = True) -> Finished:
        """End the run: the best candidate is judged again and written, as at the end of any run.

        Without `wait` it comes back at once where that takes longer; asked again, it says what came of it.
        """
        self._model.finish(f"finished by the agent: {why}" if why else "finished by the agent")
        if not wait and not self.over:
            return _PENDING
        self._thread.join()
        self._raise()
        result = self._result
        if result is None:
            raise UsageError("the run ended without a result")
        winner = result.winner if result.path is not None else None
        return Finished(
            outcome=result.outcome,
            exit_status=int(result.exit_status),
            why=result.why,
            module=str(result.path) if result.path is not None else None,
            best_turn=result.state.winner_turn,
            number=summary(winner) if winner is not None else None,
            report=str(result.run / "report.md"),
        )

    def stop(self) -> ExitStatus:
        """The agent is gone: stop, emit what is in hand, and say how it ended; raises the run's error."""
        self._stopping.set()
        self._thread.join()
        self._raise()
        return self._result.exit_status if self._result is not None else ExitStatus.ENVIRONMENT

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def _go(self, problem: ProblemSpec, watchers: Sequence[Subscriber]) -> None:
        try:
            self._result = optimize(
                problem,
                self._config,
                subscribers=watchers,
                stop_asked=self._model.stop_asked,
                folder=self._folder,
                ready={MCP: self._model},
                judges=self._judges,
            )
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that asks
            self._error = error
        finally:
            self._model.end()

    def _watch(self, logged: Logged) -> None:
        match logged.event:
            case RunStarted(run=run):
                self._folder = RunFolder(Path(self._config.runs) / run)
            case StageFinished(turn=turn, stage=stage):
                self.doing = f"judging turn {turn}: {stage.name} {stage.status}"
            case event:
                self.doing = type(event).__name__

    def _opened(self) -> RunFolder:
        self._raise()
        if self._folder is None:
            raise UsageError("the run has not begun")
        return self._folder

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _ended(self) -> str:
        self._thread.join()
        self._raise()
        result = self._result
        if result is None:
            return "The run is over."
        written = (
            f" Written: {result.path}." if result.path is not None else " Nothing was written."
        )
        return f"The run is over: {result.why}.{written} Report: {result.run / 'report.md'}."

    def _turns_left(self, index: int) -> int | None:
        limit = self._config.budget.turns
        return None if limit is None else max(limit - index, 0)

    def _left(self, index: int) -> str:
        left = self._turns_left(index)
        return "" if left is None else f"{left} turns are left, this one included."


def error_text(error: BaseException) -> str:
    """An error of the run as a sentence for the agent."""
    if isinstance(error, KernelAgentError):
        return str(error)
    return f"{type(error).__name__}: {error}"
