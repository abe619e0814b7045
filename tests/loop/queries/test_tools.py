"""Checks before a turn: the real judge compiles and counts, the log has each call, and there is a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import pytest

from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.configuration.budget import Spent
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.events import (
    Event,
    Logged,
    ReplyProgressed,
    ToolCalled,
    TurnStarted,
    from_line,
    to_line,
)
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.tool_calls import Checked, ToolCall, ToolResult
from kernelagent.domain.replies.tool_registry import TOOLS
from kernelagent.loop.queries.tools import ToolBudget, Tools
from kernelagent.loop.run import optimize
from kernelagent.models import ModelQuery, Reply
from kernelagent.models.patterns import PATTERNS, pattern
from kernelagent.prompts.wording import line_for
from kernelagent.storage.cassette import recording
from kernelagent.storage.run_log import read_events
from kernelagent.storage.run_state import fold, to_continue
from tests.evaluations import DEVICE
from tests.judges import JudgesHere

ROOT = Path(__file__).resolve().parents[3]


def codes() -> list[str]:
    replies = recording(str(ROOT / "tests" / "cassettes" / "softmax_scale_mask.jsonl"))
    return [reply.text.partition("```python\n")[2].rpartition("```")[0] for reply in replies]


@dataclass
class Careful:
    """Has every source checked before it answers with words alone."""

    sources: list[str]
    name: str = "careful"
    answers: list[str] = field(default_factory=list)

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply:
        assert ask.tools is not None
        calls = [ToolCall.of("check", code=source) for source in self.sources]
        self.answers += [ask.tools.call(call, "First a look.").text for call in calls]
        return Reply("I hand in nothing.")

    def close(self) -> None:
        """Nothing to release."""


@pytest.mark.long
def test_writer_looks_before_it_spends_a_turn(tmp_path: Path, judges: JudgesHere) -> None:
    codes_of_turns = codes()
    broken, right = codes_of_turns[0], codes_of_turns[-1]
    model = Careful([broken, right, "def (", right])
    optimize(
        ProblemSpec(path=str(ROOT / "examples" / "softmax_scale_mask.py")),
        RunConfig(
            device="virtual",
            model=(model.name,),
            turns=1,
            tool_calls=3,
            runs=str(tmp_path / "runs"),
            out=str(tmp_path / "out.py"),
        ),
        ready={model.name: model},
        judges=judges,
    )

    failed, fine, unparsable, refused = model.answers
    assert failed.startswith("Stopped (compile_error)")
    assert "2 of 3 calls and " in failed
    assert "nothing was verified" in fine
    assert "Kernel `masked_softmax`: 1 launch; " in fine
    for fact in ("registers a thread", "bytes of shared memory", "occupancy", "waves", "bound by"):
        assert fact in fine
    assert "Estimate (not measured)" in fine
    assert unparsable.startswith("Stopped (syntax_error): line 1")
    assert refused == "all 3 calls of tools before turn 0 are used; hand in a candidate"

    (log,) = (tmp_path / "runs").glob("*/events.jsonl")
    events = list(read_events(log))
    calls = [logged for logged in events if isinstance(logged.event, ToolCalled)]
    assert [logged.event.answer for logged in calls] == model.answers
    assert [logged.event.call.code for logged in calls] == model.sources
    assert sum(isinstance(logged.event, TurnStarted) for logged in events) == 1
    (_, checked, _, last) = (line_for(logged) for logged in calls)
    assert checked is not None
    assert checked.startswith("turn 0: check 2: 1 kernel, estimate ")
    assert last is not None
    assert "check 4 refused" in last

    report = (log.parent / "report.md").read_text(encoding="utf-8")
    assert "4 calls of tools before it" in report
    assert "check 4 refused" in report


@dataclass
class Slow:
    """A host whose every answer took that long."""

    seconds: float
    asked: list[ToolCall] = field(default_factory=list)

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult:
        self.asked.append(call)
        return ToolResult(self.seconds, checked=Checked())


def test_seconds_are_a_budget_of_their_own_and_device_time_of_the_run() -> None:
    events: list[Event] = []
    tools = Tools(Slow(25.0), DEVICE, events.append, ToolBudget(9, 40.0)).of(3)
    answers = [tools.call(ToolCall.of("check", code=f"# {n}")) for n in range(3)]
    assert "8 of 9 calls and 15 s of 40 s are left before turn 3" in answers[0].text
    assert answers[2].refused
    assert answers[2].text.startswith("the 40 seconds of calls of tools before turn 3 are used")
    assert tools.used_up
    assert reduce(Spent.after, events, Spent()).device_seconds == 50.0


def test_call_that_fits_no_tool_is_answered_in_words_and_counts() -> None:
    events: list[Event] = []
    host = Slow(1.0)
    tools = Tools(host, DEVICE, events.append, ToolBudget(9, 40.0)).of(0)
    calls = [
        ToolCall.of("compile", code=""),
        ToolCall.of("check"),
        ToolCall.of("check", code="", turn=1),
        ToolCall.of("check", code=["a"]),
        ToolCall("check", unread='{"code": '),
    ]
    told = [tools.call(call).text.splitlines()[0] for call in calls]
    for words, text in zip(
        ("no tool `compile`", "needs code", "takes no turn", "must be text", "cannot be read"),
        told,
        strict=True,
    ):
        assert text.startswith("Not answered: ")
        assert words in text
    assert host.asked == []
    assert len(events) == len(calls)


def test_interrupted_turn_gets_its_answers_from_the_log_each_once() -> None:
    events: list[Event] = []
    first = Tools(Slow(5.0), DEVICE, events.append, ToolBudget(3, 40.0))
    call = ToolCall.of("check", code="# a")
    before = first.of(2).call(call)
    host, later = Slow(5.0), list[Event]()
    called = tuple(event for event in events if isinstance(event, ToolCalled))
    tools = Tools(host, DEVICE, later.append, ToolBudget(3, 40.0), {2: called}).of(2)
    assert tools.call(replace(call, id="another name")) == before
    assert (host.asked, later) == ([], [])
    assert "1 of 3 calls and 30 s" in tools.call(call).text
    assert [event.number for event in later if isinstance(event, ToolCalled)] == [2]


def test_interrupted_turn_that_had_used_up_its_calls_may_still_ask_for_their_answers() -> None:
    events: list[Event] = []
    call = ToolCall.of("check", code="# a")
    Tools(Slow(5.0), DEVICE, events.append, ToolBudget(1, 40.0)).of(2).call(call)
    called = tuple(event for event in events if isinstance(event, ToolCalled))
    tools = Tools(Slow(5.0), DEVICE, events.append, ToolBudget(1, 40.0), {2: called}).of(2)
    assert not tools.used_up
    assert not tools.call(call).refused
    assert tools.used_up


def test_question_that_had_arrived_is_no_reply_when_the_run_goes_on() -> None:
    began = TurnStarted(0, TurnRequest("write", "m"), "0", batch=(0,))
    code = "class ModelNew:\n    pass\n"
    both = f"```check\n{code}```\n```python\n{code}```\n"
    arrived = ReplyProgressed(0, both, len(both))
    call = ToolCalled(0, 1, ToolCall.of("check", code=code), "words", ToolResult(1.0))
    for events in ([began, arrived], [began, arrived, call]):
        state = fold([Logged(n, 1.0, event) for n, event in enumerate(events)])
        (left,) = to_continue(state)[1]
        assert not left.answered


def test_every_tool_has_a_schema_and_survives_the_log() -> None:
    for tool in TOOLS.values():
        assert tool.description.endswith(".")
        assert all(item["description"].endswith(".") for item in tool.schema["properties"].values())
    call = ToolCall.of("sweep", code="x", axes={"BLOCK": [64, 128]})
    logged = Logged(0, 1.0, ToolCalled(0, 1, call, "words", ToolResult(0.5, checked=Checked())))
    assert from_line(to_line(logged)) == logged


def test_library_is_listed_and_given_by_name_without_asking_the_judge() -> None:
    host = Slow(1.0)
    tools = Tools(host, DEVICE, lambda _: None, ToolBudget(9, 40.0)).of(0)
    assert "- `matmul_split_k`: " in tools.call(ToolCall.of("patterns")).text
    text = tools.call(ToolCall.of("patterns", name="matmul_float32")).text
    assert 'input_precision="tf32x3"' in text
    assert "there is no pattern 'gemm'" in tools.call(ToolCall.of("patterns", name="gemm")).text
    assert host.asked == []


def test_every_kernel_of_the_library_is_a_candidate_with_a_kernel() -> None:
    for name in PATTERNS:
        parsed = parse_reply(f"```python\n{pattern(name)}```")
        assert isinstance(parsed, Candidate), name
        assert "@triton.jit" in parsed.source
