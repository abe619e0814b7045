"""A reply with several files: each gets a look, one is judged, and the log says which and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.budget import Budget, Spent
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import Estimate, Reason
from kernelagent.domain.events import (
    CandidatesRanked,
    Evaluated,
    Event,
    Logged,
    ProblemDescribed,
    RunStarted,
    TurnVoid,
    from_line,
    to_line,
)
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.tool_calls import Checked, ToolCall, ToolResult
from kernelagent.loop.loop_state import Earlier
from kernelagent.loop.ranking import Ranker
from kernelagent.loop.run import optimize
from kernelagent.loop.session import Session
from kernelagent.models import Model
from kernelagent.models.replay import ReplayModel
from kernelagent.prompts.ranking import ranking_text
from kernelagent.prompts.wording import line_for
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from kernelagent.storage.run_state import fold
from kernelagent.strategies.sequential import Sequential
from tests.evaluations import DEVICE, FACTS, Recorded, Scripted, accepted, rejected
from tests.judges import JudgesHere
from tests.loop.queries.test_tools import ROOT, codes

SLOW, FAST, BROKEN = (Candidate(f"# {name}\n") for name in ("slow", "fast", "broken"))
MICROSECONDS = {SLOW.source: 20.0, FAST.source: 5.0}


@dataclass
class Looks:
    """A host that knows two files, and no third."""

    asked: list[tuple[str, float]] = field(default_factory=list)

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult:
        assert call.tool == "check"
        self.asked.append((call.code, seconds))
        us = MICROSECONDS.get(call.code)
        if us is None:
            return ToolResult(4.0, checked=Checked(Reason("compile_error", "no such name")))
        estimate = Estimate(us, 10.0, "dram", 10.0 / us, "x: float32[4]")
        return ToolResult(4.0, checked=Checked(estimate=estimate))


def ranked(
    seconds: float = 60.0, repeated: dict[str, str] | None = None
) -> tuple[CandidatesRanked, Looks, list[Event]]:
    host, events = Looks(), list[Event]()
    ranker = Ranker(host, "virtual", seconds, events.append)
    return ranker.ranking(3, (BROKEN, SLOW, FAST), repeated or {}), host, events


def test_the_fastest_by_estimate_is_judged_and_one_that_does_not_compile_comes_last() -> None:
    result, host, events = ranked()
    assert [row.place for row in result.ranked] == [3, 2, 1]
    assert result.chosen == FAST.id
    assert [seconds for _, seconds in host.asked] == [60.0, 56.0, 52.0]
    assert events == [result]
    assert reduce(Spent.after, events, Spent()).device_seconds == 12.0
    assert ranking_text(result) == (
        "of 3 files in the reply, file 3 is judged, the fastest by its estimate, not measured "
        "(file 3: 5.0 us; file 2: 20.0 us; file 1: compile_error: no such name)"
    )


def test_a_file_that_was_tried_before_is_neither_looked_at_nor_judged() -> None:
    result, host, _ = ranked(repeated={FAST.id: "repeated: the candidate of turn 1"})
    assert result.chosen == SLOW.id
    assert FAST.source not in [code for code, _ in host.asked]
    assert "file 3: repeated: the candidate of turn 1" in ranking_text(result)


def test_what_there_are_no_seconds_for_keeps_its_place_behind_what_has_a_time() -> None:
    result, host, _ = ranked(seconds=8.0)
    assert len(host.asked) == 2
    assert [row.place for row in result.ranked] == [2, 1, 3]
    assert "file 3: not looked at: the seconds were used up" in ranking_text(result)


def test_without_anyone_who_looks_the_first_file_is_judged() -> None:
    events: list[Event] = []
    result = Ranker(None, "virtual", 60.0, events.append).ranking(0, (SLOW, FAST), {})
    assert result.chosen == SLOW.id
    assert "none has a time; it is the first that is left" in ranking_text(result)


def test_an_interrupted_run_takes_the_ranking_of_its_log() -> None:
    before, _, _ = ranked()
    host, events = Looks(), list[Event]()
    again = Ranker(host, "virtual", 60.0, events.append, {3: before})
    assert again.ranking(3, (BROKEN, SLOW, FAST), {}) == before
    assert (host.asked, events) == ([], [])
    assert again.ranking(3, (SLOW, FAST), {}) != before, "another reply is ranked anew"


def test_the_ranking_survives_the_log_and_is_told() -> None:
    logged = Logged(0, 1.0, ranked()[0])
    assert from_line(to_line(logged)) == logged
    assert (line_for(logged) or "").startswith("turn 3: of 3 files in the reply, file 3 is judged")
    assert fold([logged]).ranked == {3: logged.event}


def reply_of(*files: str) -> str:
    return "Some versions.\n\n" + "\n".join(f"```python\n{file}```\n" for file in files)


def numbered(*numbers: int) -> str:
    return reply_of(*(f"class ModelNew:\n    number = {number}\n" for number in numbers))


@dataclass
class ByNumber:
    """A host for whom a file is the faster the higher its number; the fourth does not compile."""

    asked: list[int] = field(default_factory=list)

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult:
        number = int(call.code.split("number = ")[1])
        self.asked.append(number)
        if number == 4:
            return ToolResult(1.0, checked=Checked(Reason("compile_error", "no such name")))
        estimate = Estimate(10.0 - number, 10.0, "dram", 1.0 + number, "x: float32[4]")
        return ToolResult(1.0, checked=Checked(estimate=estimate))


VERDICTS = [accepted(1.1), accepted(1.2), rejected(), accepted(1.4), rejected("compile_error")]
REPLIES = [numbered(0, 4, 2, 1), numbered(1, 2), numbered(2, 1), numbered(3)]


def several(
    folder: RunFolder,
    model: Model,
    host: ByNumber,
    earlier: Earlier | None = None,
    candidates: int = 4,
) -> tuple[Session, Recorded]:
    """A session whose writer may hand in four files at once."""
    evaluator = Recorded(VERDICTS)
    log = EventLog(folder, clock=lambda: 1.0)
    session = Session(
        facts=FACTS,
        device=DEVICE,
        strategy=Sequential((model.name,)),
        models={model.name: model},
        evaluator=evaluator,
        budget=Budget(turns=None),
        publish=log.publish,
        clock=lambda: 0.0,
        keep_prompt=folder.keep_prompt,
        keep_candidate=folder.keep_candidate,
        config=RunConfig(candidates=candidates),
        earlier=earlier or Earlier(),
        tool_host=host,
    )
    return session, evaluator


def rankings(folder: RunFolder) -> list[CandidatesRanked]:
    events = (logged.event for logged in read_events(folder.log))
    return [event for event in events if isinstance(event, CandidatesRanked)]


def test_a_turn_with_several_files_judges_one_and_tells_the_writer_of_all(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", "toy", now=0.0)
    model, host = Scripted(REPLIES), ByNumber()
    session, evaluator = several(folder, model, host)
    session.run()

    assert host.asked == [0, 4, 2, 1, 1], "what was judged before gets no second look"
    assert evaluator.asked == [2, 1, 3], "one a turn; on turn 2 nothing new was left"
    assert session.spent.turns == 4
    first, second = rankings(folder)
    assert [row.place for row in first.ranked] == [3, 4, 1, 2]
    assert [row.place for row in second.ranked] == [1, 2]
    assert "repeated" in (second.ranked[1].stopped or "")
    assert "the candidate of turn 1 again" in (session.history.turn(2).void or "")
    assert "up to 4 ```python blocks" in model.seen[0].messages[1].content
    told = model.seen[1].messages[-1].content
    assert "the last 3 columns are wrong" in told
    assert "Ranked: of 4 files in the reply, file 3 is judged, the fastest by its estimate" in told
    assert "file 2: compile_error: no such name" in told
    assert session.spent.device_seconds == 5.0 + 1.0, "looks and two accepted verdicts' stages"
    assert fold(read_events(folder.log)).history == session.history


def test_recorded_turns_with_several_files_replay(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "a", "toy", now=0.0)
    several(folder, Scripted(REPLIES), ByNumber())[0].run()
    again = RunFolder.create(tmp_path / "b", "toy", now=0.0)
    replayed, evaluator = several(again, ReplayModel.from_path(str(folder.path)), ByNumber())
    replayed.run()
    assert evaluator.asked == [2, 1, 3]
    assert rankings(again) == rankings(folder)


def test_a_run_that_ends_between_ranking_and_verdict_goes_on_without_looking_again(
    tmp_path: Path,
) -> None:
    whole = RunFolder.create(tmp_path / "a", "toy", now=0.0)
    head = EventLog(whole, clock=lambda: 1.0)
    head.publish(RunStarted(whole.id, ProblemSpec(path="toy.py"), {}, {}))
    head.publish(ProblemDescribed(FACTS, DEVICE, "none"))
    head.close()
    session, _ = several(whole, Scripted(REPLIES), ByNumber())
    session.run()
    lines = whole.log.read_text(encoding="utf-8").splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if "CandidatesRanked" in line)

    cut = RunFolder.create(tmp_path / "b", "toy", now=0.0)
    cut.log.write_text("".join(lines[: at + 1]), encoding="utf-8")
    earlier = Earlier.of(fold(read_events(cut.log)), whole.kept_prompt)
    host = ByNumber()
    resumed, evaluator = several(cut, Scripted(REPLIES), host, earlier)
    resumed.run()
    assert host.asked == [1], "the first turn's ranking is in the log"
    assert evaluator.asked == [2, 1, 3]
    assert resumed.history == session.history
    assert rankings(cut) == rankings(whole)


def test_without_the_option_the_last_file_of_a_reply_is_judged(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", "toy", now=0.0)
    model = Scripted([numbered(0, 4, 2, 1)])
    session, evaluator = several(folder, model, ByNumber(), candidates=1)
    session.run()
    assert evaluator.asked == [1]
    assert rankings(folder) == []
    assert "ONE ```python block" in model.seen[0].messages[1].content


@pytest.fixture(scope="module")
def written() -> tuple[str, str, str]:
    """A file that does not compile, a right one, and the same with smaller tiles."""
    broken, right = codes()[0], codes()[-1]
    smaller = right.replace("ROWS=4", "ROWS=2").replace(
        "triton.cdiv(rows, 4)", "triton.cdiv(rows, 2)"
    )
    return broken, right, smaller


@pytest.mark.long
@pytest.mark.timeout(900)
def test_several_files_on_the_real_judge(
    tmp_path: Path, judges: JudgesHere, written: tuple[str, str, str]
) -> None:
    broken, right, other = written
    replies = [reply_of(right, broken, other), reply_of(right, broken), reply_of(right)]
    model = Scripted(replies, name="several", dollars=None)
    config = RunConfig(
        device="virtual",
        model=(model.name,),
        # The usual one ends where nothing is left to gain, before the second reply.
        strategy="sequential",
        candidates=3,
        turns=3,
        runs=str(tmp_path / "runs"),
        out=str(tmp_path / "out.py"),
    )
    problem = ProblemSpec(path=str(ROOT / "examples" / "softmax_scale_mask.py"))
    result = optimize(problem, config, ready={model.name: model}, judges=judges)
    events = [logged.event for logged in read_events(RunFolder(result.run).log)]

    first, second = (event for event in events if isinstance(event, CandidatesRanked))
    judged = {event.turn: event for event in events if isinstance(event, Evaluated)}
    assert judged[0].candidate == first.chosen
    assert judged[0].evaluation.accepted
    assert first.ranked[-1].place == 2, "what does not compile is judged last"
    assert "compile_error" in (first.ranked[-1].stopped or "")
    times = [row.us for row in first.ranked[:2]]
    assert None not in times
    assert "Ranked: of 3 files in the reply, file " in judged[0].feedback
    assert "compile_error" in model.seen[1].messages[-1].content, "the writer reads of all three"
    assert "up to 3 ```python blocks" in model.seen[0].messages[1].content

    # Whatever was judged on turn 0 is not tried again; on turn 2 nothing new is left.
    repeated = [row.place for row in second.ranked if "repeated" in (row.stopped or "")]
    assert repeated in ([1], [])
    if judged[0].candidate == Candidate(right).id:
        assert any(isinstance(event, TurnVoid) and event.turn == 2 for event in events)

    played = optimize(
        problem,
        replace(config, model=(f"replay:{result.run}",), out=str(tmp_path / "again.py")),
        judges=judges,
    )
    again = [logged.event for logged in read_events(RunFolder(played.run).log)]
    rankings = [event for event in again if isinstance(event, CandidatesRanked)]
    assert [ranking.chosen for ranking in rankings] == [first.chosen, second.chosen]
