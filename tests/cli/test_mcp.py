"""`kernelagent mcp`, driven by the SDK's own client over stdio: a run like any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

from kernelagent.cli.agent_run import AgentRun
from kernelagent.cli.mcp_server import server_for
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.events import Evaluated, ModuleEmitted, RunFinished, RunStarted, TurnStarted
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.tool_registry import TOOLS
from kernelagent.prompts import prompts_version
from kernelagent.storage.cassette import recording
from kernelagent.storage.run_log import read_events
from kernelagent.storage.run_state import fold

ROOT = Path(__file__).resolve().parents[2]
CASSETTE = ROOT / "tests" / "cassettes" / "softmax_scale_mask.jsonl"
PROBLEM = ROOT / "examples" / "softmax_scale_mask.py"
PATIENCE_S = 400.0
pytestmark = pytest.mark.timeout(900)
OFFERED = {
    "read_problem",
    *TOOLS,
    "submit_candidate",
    "await_turn",
    "list_history",
    "show_turn",
    "finish",
}


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def server(folder: Path, *words: str) -> StdioServerParameters:
    arguments = ["-m", "kernelagent", "mcp", *words]
    return StdioServerParameters(
        command=sys.executable, args=arguments, cwd=folder, env=environment()
    )


async def call(session: ClientSession, tool: str, **arguments: Any) -> Any:
    """What a tool answered: its fields where it has any, its text otherwise."""
    answer = await session.call_tool(tool, arguments, read_timeout_seconds=PATIENCE_S)
    text = "".join(block.text for block in answer.content)
    assert not answer.is_error, text
    return json.loads(text) if text.startswith("{") else text


def agent_session(folder: Path, *words: str, work: Any) -> Any:
    """What `work` came to in a session with a server of its own."""

    async def go() -> Any:
        async with (
            stdio_client(server(folder, *words)) as streams,
            ClientSession(*streams) as session,
        ):
            await session.initialize()
            return await work(session)

    return anyio.run(go)


def only_run(folder: Path) -> Path:
    (run,) = (folder / ".kernelagent" / "runs").iterdir()
    return run


@pytest.mark.long
def test_agent_works_from_a_rejection_to_an_emitted_module(tmp_path):
    replies = [recorded.text for recorded in recording(str(CASSETTE))]
    code = [reply.partition("```python\n")[2].rpartition("```")[0] for reply in replies]

    async def work(session: ClientSession) -> dict[str, Any]:
        named = {tool.name for tool in (await session.list_tools()).tools}
        task = await call(session, "read_problem")
        looked = await call(session, "check", code=code[-1])
        wrong = await call(session, "submit_candidate", code=code[0], reasoning="One pass.")
        right = await call(session, "submit_candidate", code=code[-1], reasoning="Masked.")
        listed = await call(session, "list_history")
        shown = await call(session, "show_turn", turn=0)
        nothing = await session.call_tool("show_turn", {"turn": 7})
        pending = await call(session, "finish", why="one launch is left", wait=False)
        ended = await call(session, "finish")
        late = await session.call_tool("submit_candidate", {"code": code[1]})
        return locals()

    message = agent_session(
        tmp_path, str(PROBLEM), "--device", "virtual", "--turns", "5", work=work
    )

    assert message["named"] == OFFERED
    assert "class Model(nn.Module)" in message["task"]
    assert "5 turns are left" in message["task"]
    assert "nothing was verified" in message["looked"]
    assert (message["wrong"]["verdict"], message["wrong"]["reason"]) == (
        "rejected",
        "compile_error",
    )
    assert "The version of turn 0 was not accepted" in message["wrong"]["findings"]
    assert message["right"]["verdict"] == "accepted"
    assert message["right"]["best_turn"] == 1
    assert message["right"]["turns_left"] == 3
    assert "Kernel `masked_softmax`: 1 launch" in message["right"]["findings"]
    assert "turn 1 (repair from turn 0, best): accepted" in message["listed"]
    assert code[0].strip() in message["shown"]
    assert message["nothing"].is_error
    assert (message["pending"]["outcome"], message["pending"]["module"]) == ("pending", None)
    assert message["ended"]["outcome"] == "better"
    assert message["late"].is_error
    assert "The run is over" in message["late"].content[0].text
    written = Path(tmp_path / message["ended"]["module"])
    assert "class ModelNew" in written.read_text(encoding="utf-8")

    run = only_run(tmp_path)
    events = [logged.event for logged in read_events(run / "events.jsonl")]
    kinds = [type(event) for event in events]
    assert (kinds[0], kinds[-1]) == (RunStarted, RunFinished)
    assert kinds.count(Evaluated) == 2
    assert kinds.count(ModuleEmitted) == 1
    assert {e.prompts for e in events if isinstance(e, TurnStarted)} == {prompts_version()}
    assert "| " in (run / "report.md").read_text(encoding="utf-8")
    replayed = recording(str(run))
    assert [reply.verdict for reply in replayed] == ["compile_error", "accepted"]


def test_every_argument_of_every_tool_is_described():
    run = AgentRun(ProblemSpec(path=str(PROBLEM)), RunConfig(device="virtual"))
    tools = anyio.run(server_for(run).list_tools)
    assert {tool.name for tool in tools} == OFFERED
    for tool in tools:
        assert tool.description
        for name, schema in tool.input_schema.get("properties", {}).items():
            assert schema.get("description"), (tool.name, name)


@pytest.mark.long
def test_run_whose_agent_went_away_goes_on_with_another(tmp_path):
    replies = [recorded.text for recorded in recording(str(CASSETTE))]

    async def first(session: ClientSession) -> Any:
        return await call(session, "submit_candidate", code=replies[0])

    async def second(session: ClientSession) -> Any:
        task = await call(session, "read_problem")
        right = await call(session, "submit_candidate", code=replies[-1])
        return task, right

    agent_session(tmp_path, str(PROBLEM), "--device", "virtual", "--turns", "2", work=first)
    before = fold(read_events(only_run(tmp_path) / "events.jsonl"))
    # The second turn may have been asked for, of an agent that had gone.
    assert [turn.reply is not None for turn in before.history.turns] in ([True], [True, False])
    task, right = agent_session(tmp_path, "--resume", only_run(tmp_path).name, work=second)

    assert "Rejected (compile_error)" in task
    assert right["verdict"] == "accepted"
    assert right["over"]
    assert "The run is over: the budget of 2 turns is spent" in right["findings"]
    state = fold(read_events(only_run(tmp_path) / "events.jsonl"))
    assert len(state.history.turns) == 2
    assert state.emitted is not None


@pytest.mark.long
def test_unreadable_problem_is_said_to_the_agent(tmp_path):
    (tmp_path / "empty.py").write_text("", encoding="utf-8")

    async def work(session: ClientSession) -> Any:
        return await session.call_tool("read_problem", {}, read_timeout_seconds=PATIENCE_S)

    answer = agent_session(tmp_path, "empty.py", "--device", "virtual", work=work)
    assert answer.is_error
    assert "empty.py" in answer.content[0].text


@pytest.mark.long
def test_without_the_sdk_the_install_line_is_said(tmp_path):
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("raise ImportError('no SDK')", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "kernelagent", "mcp", str(PROBLEM), "--device", "virtual"],
        cwd=tmp_path,
        env={**environment(), "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 3
    assert "pip install -e '.[mcp]'" in done.stderr
    assert "Traceback" not in done.stderr
