"""Calls of tools in mid-turn: as functions over real HTTP, and as blocks in plain replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest

from kernelagent.domain.candidate import Candidate, NoCandidate, parse_reply
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.events import Evaluated, Event, ReplyReceived, ToolCalled, TurnStarted
from kernelagent.domain.history import History, Message, TurnRequest
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.tool_blocks import calls_in
from kernelagent.domain.replies.tool_calls import ToolCall
from kernelagent.loop.run import optimize
from kernelagent.models import Calling, ModelQuery, Reply, in_words
from kernelagent.models.files_model import FilesModel
from kernelagent.models.litellm_model import LitellmModel
from kernelagent.models.replay import ReplayModel
from kernelagent.storage.cassette import cassette_text, of_run, recording
from kernelagent.storage.run_log import RunFolder, read_events
from tests.judges import JudgesHere
from tests.models.fault_server import Answer, FaultServer, Rules

ROOT = Path(__file__).resolve().parents[3]
NAME = "openai/writer-1"
REPLIES = [item.text for item in recording(str(ROOT / "tests/cassettes/softmax_scale_mask.jsonl"))]
FINAL = REPLIES[0]
"""Refused at once: it does not compile."""
CODE = REPLIES[-1].partition("```python\n")[2].rpartition("```")[0]


def as_call(**arguments: Any) -> tuple[str, str]:
    return "check", json.dumps(arguments)


NOTHING = "I hand in nothing."


def run_with(
    model: Any, folder: Path, judges: JudgesHere, **options: Any
) -> tuple[Path, list[Event]]:
    folder.mkdir(exist_ok=True)
    config = RunConfig(
        device="virtual",
        model=(model.name,),
        turns=1,
        strategy="sequential",
        envelope_seconds=0.0,
        runs=str(folder / "runs"),
        out=str(folder / "out.py"),
    )
    result = optimize(
        ProblemSpec(path=str(ROOT / "examples" / "softmax_scale_mask.py")),
        replace(config, **options),
        ready={model.name: model},
        judges=judges,
    )
    return result.run, [item.event for item in read_events(result.run / "events.jsonl")]


def of(events: list[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-test-1234567890")


def test_functions_are_called_over_http_until_a_candidate_is_handed_in(
    tmp_path: Path, judges: JudgesHere
) -> None:
    plan = [
        Answer("Let me look.", calls=(as_call(code=CODE), ("check", '{"code": '))),
        Answer(calls=(as_call(code="def ("),)),
        Answer(FINAL),
    ]
    with FaultServer(plan) as server:
        model = LitellmModel(NAME, api_base=server.url)
        _, events = run_with(model, tmp_path, judges)
        first, second, third = [item.body for item in server.asks if not item.taught]

    (function,) = [t["function"] for t in first["tools"] if t["function"]["name"] == "check"]
    assert function["parameters"]["required"] == ["code"]
    assert first["tool_choice"] == "auto"
    assert "```check" not in first["messages"][1]["content"]
    asked, *answers = second["messages"][len(first["messages"]) :]
    assert asked["content"] == "Let me look."
    assert [call["id"] for call in asked["tool_calls"]] == [a["tool_call_id"] for a in answers]
    assert "nothing was verified" in answers[0]["content"]
    assert "cannot be read: they are no JSON" in answers[1]["content"]
    assert "Stopped (syntax_error)" in third["messages"][-1]["content"]

    calls = of(events, ToolCalled)
    assert [call.number for call in calls] == [1, 2, 3]
    assert calls[0].said == "Let me look."
    assert calls[0].call.code == CODE
    assert len(of(events, TurnStarted)) == 1
    (received,) = of(events, ReplyReceived)
    assert received.text == FINAL
    assert received.tokens_in == 300
    assert received.tokens_out == sum(answer.tokens_out for answer in plan)
    assert of(events, Evaluated)[0].evaluation.reason.code == "compile_error"


@pytest.mark.long
def test_endpoint_without_functions_is_told_of_the_tools_in_words(
    tmp_path: Path, judges: JudgesHere
) -> None:
    plan = [Answer(f"Is it fine?\n\n```check\n{CODE}```\n"), Answer(NOTHING)]
    with FaultServer(plan, rules=Rules(tools=False)) as server:
        model = LitellmModel(NAME, api_base=server.url)
        run, events = run_with(model, tmp_path, judges)
        first, second = [item.body for item in server.asks if not item.taught]
    assert "tools" not in first
    assert "```check" in first["messages"][1]["content"]
    assert second["messages"][-2]["content"] == plan[0].text
    assert "nothing was verified" in second["messages"][-1]["content"]
    assert second["messages"][-1]["role"] == "user"
    # The prompt that was sent is the one that is kept and hashed.
    kept = json.loads((run / "prompts" / "000.json").read_text(encoding="utf-8"))
    assert "```check" in kept[1]["content"]
    assert len(of(events, ToolCalled)) == 1


@pytest.mark.long
def test_functions_are_not_offered_without_tools_nor_called_beyond_the_budget(
    tmp_path: Path, judges: JudgesHere
) -> None:
    call = Answer(calls=(as_call(code="def ("),))
    with FaultServer([Answer(NOTHING)]) as server:
        run_with(LitellmModel(NAME, api_base=server.url), tmp_path / "none", judges, tool_calls=0)
        assert "tools" not in server.asks[0].body
    with FaultServer([call, call, Answer(NOTHING)]) as server:
        model = LitellmModel(NAME, api_base=server.url)
        _, events = run_with(model, tmp_path / "one", judges, tool_calls=1)
        assert [item.body["tool_choice"] for item in server.asks] == ["auto", "none", "none"]
    assert [item.result is None for item in of(events, ToolCalled)] == [False, True]


def test_functions_of_a_reply_that_does_not_stream_are_read_alike() -> None:
    call = Answer("Hm.", calls=(as_call(code=CODE),))
    with FaultServer([call], rules=Rules(stream=False)) as server:
        model = LitellmModel(NAME, api_base=server.url)
        ask = ModelQuery(0, TurnRequest("write", NAME), (Message("user", "Write."),), History())
        reply = model.reply(ask, lambda _: None)
    assert isinstance(reply, Reply)
    assert reply.calls == (ToolCall("check", {"code": CODE}, "id-0"),)


@dataclass
class Plain:
    """A chat without functions: what it says, in order; what it was told."""

    says: list[str]
    name: str = "plain"
    calling: Calling = "blocks"
    asked: list[tuple[Message, ...]] = field(default_factory=list)

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply:
        self.asked.append(in_words(ask))
        return Reply(self.says[len(self.asked) - 1], tokens_in=10, tokens_out=5)

    def close(self) -> None:
        """Nothing to release."""


@pytest.mark.long
def test_blocks_are_answered_before_the_turn_is_judged(tmp_path: Path, judges: JudgesHere) -> None:
    both = f"```check\n{CODE}```\nand perhaps\n```python\n{CODE}```\n"
    model = Plain([both, NOTHING])
    run, events = run_with(model, tmp_path, judges)
    assert "nothing was verified" in model.asked[1][-1].content
    assert [type(e) for e in events if isinstance(e, ToolCalled | ReplyReceived | Evaluated)] == [
        ToolCalled,
        ReplyReceived,
    ]
    assert of(events, ReplyReceived)[0].tokens_in == 20

    cassette = tmp_path / "talk.jsonl"
    cassette.write_text(cassette_text(of_run(RunFolder(run))), encoding="utf-8")
    again = ReplayModel.from_path(f"{cassette},match=hash")
    _, replayed = run_with(again, tmp_path / "again", judges)
    assert [c.call for c in of(replayed, ToolCalled)] == [c.call for c in of(events, ToolCalled)]
    assert of(replayed, ToolCalled)[0].said == both
    assert [r.text for r in of(replayed, ReplyReceived)] == [NOTHING]


@pytest.mark.long
def test_a_last_word_that_only_asks_again_is_void_and_says_why(
    tmp_path: Path, judges: JudgesHere
) -> None:
    model = Plain(["```check\ndef (\n```"] * 3)
    _, events = run_with(model, tmp_path, judges, tool_calls=1)
    assert len(model.asked) == 3
    assert "all 1 calls of tools before turn 0 are used" in model.asked[2][-1].content
    (void,) = [event for event in events if type(event).__name__ == "TurnVoid"]
    assert "only asks the tool `check`" in void.why


@pytest.mark.long
def test_files_show_the_answers_in_a_prompt_of_their_own(
    tmp_path: Path, judges: JudgesHere
) -> None:
    desk = tmp_path / "desk"
    model = FilesModel.from_spec(str(desk), lambda: False)

    def writer() -> None:
        for stem, text in (
            ("turn-000", f"```check\n{CODE}```\n"),
            ("turn-000.call-1", NOTHING),
        ):
            while not (desk / f"{stem}.prompt.md").is_file():
                sleep(0.05)
            (desk / f"{stem}.reply.md").write_text(text, encoding="utf-8")

    Thread(target=writer, daemon=True).start()
    _, events = run_with(model, tmp_path, judges)
    assert "```check" in (desk / "turn-000.prompt.md").read_text(encoding="utf-8")
    second = (desk / "turn-000.call-1.prompt.md").read_text(encoding="utf-8")
    assert "nothing was verified" in second
    assert of(events, ReplyReceived)[0].text == NOTHING


def test_blocks_of_tools_are_calls_and_never_candidates() -> None:
    code = "class ModelNew:\n    pass\n"
    reply = f"<think>```check\nx\n```</think>\n```check\n{code}```\n"
    assert calls_in(reply) == (ToolCall.of("check", code=code),)
    assert isinstance(parse_reply(reply), NoCandidate)
    assert parse_reply(f"{reply}\n```python\n{code}```") == Candidate(code)
    (open_one,) = calls_in(f"```check\n{code}")
    assert open_one.unread == "the block is not closed"
    (odd,) = calls_in("```check quickly\nx\n```")
    assert "write key=value" in odd.unread
    assert calls_in("```python\nx\n```") == ()
