"""What an agent's client sees of a run, by the SDK's own client in this process; model, log and loop are the real ones."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import pytest
from mcp import Client

from kernelagent.cli.agent_run import AgentRun
from kernelagent.cli.mcp_server import INSTRUCTIONS, OPTIMIZE, RESOURCES, server_for
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.domain.problem import ProblemSpec
from tests.evaluations import DEVICE, FACTS, Recorded, accepted, rejected

PATIENCE_S = 60.0
PROBLEM = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    return [torch.randn(4)]
"""
CODE = "class ModelNew:\n    number = {}\n"


@dataclass
class HeldJudges:
    """Judges with recorded verdicts, given only once they are let go; itself the only one of them."""

    recorded: Recorded
    let_go: Event = field(default_factory=Event)
    here = True
    facts = FACTS
    device = DEVICE
    sandbox = "none"

    @contextmanager
    def open(self, settings: Any, say: Any) -> Iterator[HeldJudges]:
        yield self

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        assert self.let_go.wait(PATIENCE_S)
        return self.recorded.evaluate(candidate, on_stage)

    def evaluate_final(
        self, candidate: Candidate, on_stage: Callable[[Stage], None], seconds: float | None = None
    ) -> Evaluation:
        return rejected("data_race")

    def widen(self, candidate: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        return evaluation

    def try_emitted(self, file: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        return evaluation


def session(
    folder: Path, judges: HeldJudges, work: Callable[[Client], Awaitable[Any]], turns: int = 3
) -> Any:
    """What `work` came to with a client of a run in `folder`."""
    config = RunConfig(device="virtual", turns=turns, tool_calls=0, runs=str(folder / "runs"))
    (folder / "toy.py").write_text(PROBLEM, encoding="utf-8")
    run = AgentRun(ProblemSpec(path=str(folder / "toy.py")), config, judges=judges)

    run.start()

    async def go() -> Any:
        async with Client(server_for(run)) as client:
            with anyio.fail_after(PATIENCE_S):
                return await work(client)

    try:
        return anyio.run(go)
    finally:
        judges.let_go.set()
        run.stop()


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    text = "".join(block.text for block in answer.content)
    if answer.is_error:
        return text
    return json.loads(text) if text.startswith("{") else text


@pytest.fixture
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeldJudges:
    monkeypatch.chdir(tmp_path)
    return HeldJudges(Recorded([rejected(), accepted(2.0), accepted(2.5)]))


@pytest.mark.long
def test_a_candidate_handed_in_without_waiting_has_a_handle_that_its_verdict_is_asked_by(
    tmp_path: Path, judges: HeldJudges
) -> None:
    async def work(client: Client) -> Any:
        handle = await call(client, "submit_candidate", code=CODE.format(0), wait=False)
        held = judges.let_go.is_set()
        judges.let_go.set()
        verdict = await call(client, "await_turn", turn=handle["turn"])
        again = await call(client, "await_turn", turn=handle["turn"])
        early = await call(client, "await_turn", turn=1)
        return handle, held, verdict, again, early

    handle, held, verdict, again, early = session(tmp_path, judges, work)
    assert (handle["turn"], handle["verdict"], handle["turns_left"]) == (0, "pending", 2)
    assert not held
    assert "await_turn with turn=0" in handle["findings"]
    assert (verdict["verdict"], verdict["reason"]) == ("rejected", "wrong_output")
    assert "the last 3 columns are wrong" in verdict["findings"]
    assert again == verdict
    assert early.endswith("turn 1 waits for a candidate: hand one in first")


@pytest.mark.long
def test_a_call_that_the_client_gives_up_is_judged_all_the_same(
    tmp_path: Path, judges: HeldJudges
) -> None:
    async def work(client: Client) -> Any:
        with anyio.move_on_after(0.5) as gave_up:
            await call(client, "submit_candidate", code=CODE.format(1))
        judges.let_go.set()
        return gave_up.cancelled_caught, await call(client, "await_turn", turn=0)

    gave_up, verdict = session(tmp_path, judges, work)
    assert gave_up
    assert (verdict["verdict"], verdict["reason"], verdict["best_turn"]) == ("accepted", None, 0)


@pytest.mark.long
def test_problem_history_and_report_are_resources(tmp_path: Path, judges: HeldJudges) -> None:
    judges.let_go.set()

    async def read(client: Client, address: str) -> str:
        (content,) = (await client.read_resource(address)).contents
        return content.text

    async def work(client: Client) -> Any:
        listed = (await client.list_resources()).resources
        task = await read(client, "kernelagent://problem")
        await call(client, "submit_candidate", code=CODE.format(1))
        history = await read(client, "kernelagent://history")
        report = await read(client, "kernelagent://report")
        return {str(r.uri): r.description for r in listed}, task, history, report

    listed, task, history, report = session(tmp_path, judges, work)
    assert listed == {f"kernelagent://{name}": description for name, description, _ in RESOURCES}
    assert task.startswith("Turn 0. 3 turns are left")
    assert "- turn 0 (write, best): accepted" in history
    assert report.startswith("# ")
    assert "toy" in report


def test_a_resource_of_a_run_that_could_not_begin_says_why(tmp_path: Path) -> None:
    run = AgentRun(
        ProblemSpec(path=str(tmp_path / "gone.py")), RunConfig(device="virtual", runs=str(tmp_path))
    )
    run.start()
    until = time.monotonic() + PATIENCE_S
    while not run.over and time.monotonic() < until:
        time.sleep(0.01)

    async def work() -> str:
        async with Client(server_for(run)) as client:
            (content,) = (await client.read_resource("kernelagent://history")).contents
            return content.text

    assert "gone.py" in anyio.run(work)


@pytest.mark.long
def test_the_prompt_sets_an_agent_to_work(tmp_path: Path, judges: HeldJudges) -> None:
    async def work(client: Client) -> Any:
        (offered,) = (await client.list_prompts()).prompts
        return offered, await client.get_prompt(OPTIMIZE)

    offered, prompt = session(tmp_path, judges, work)
    assert offered.name == OPTIMIZE
    assert offered.description
    (message,) = prompt.messages
    assert message.content.text == INSTRUCTIONS
