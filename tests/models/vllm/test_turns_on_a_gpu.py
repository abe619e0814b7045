"""Generation and timing on one GPU: they never overlap, inside a run and between processes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.errors import EnvironmentFault, ModelError
from kernelagent.domain.evaluation import DeviceFacts, Evaluation
from kernelagent.domain.events import Remarked, ServerProgress
from kernelagent.domain.history import History, Message, TurnRequest
from kernelagent.domain.problem import ProblemFacts, ProblemSpec
from kernelagent.loop.queries.exclusive_gpu import ExclusiveGpuJudge, alone_on
from kernelagent.models import ModelQuery, ModelSettings, Reply
from kernelagent.models.draining import DrainedModel, Gate, Pausable
from kernelagent.models.kinds import load_model
from kernelagent.tools.gpu_lock import Gpu, GpuLock, chosen, gpu_of
from tests.models.vllm.served import (
    PATIENCE_S,
    asked_of,
    checkpoint,
    environment,
    pids_of,
    runs,
    wait_for,
)

DEVICE = DeviceFacts("cuda", "a GPU", "sm_90", "2.13", "3.9")
FACTS = ProblemFacts("p", "", "Model", "init", "()", (), (), (), "eval", "0", "tf32 off")
TABLE = "0, GPU-aaaa-1, 81559\n1, GPU-bbbb-2, 81559\n"


def ask(turn: int = 0) -> ModelQuery:
    words = (Message("user", "write a kernel"),)
    return ModelQuery(turn, TurnRequest("write", "vllm:x"), words, History())


@dataclass
class Counted:
    """Notes when it is at work, and whether anything else was."""

    others: Any = None
    overlaps: int = 0
    turns: int = 0
    working: threading.Event = field(default_factory=threading.Event)

    def evaluate(self, candidate, on_stage) -> Evaluation:
        self.working.set()
        for _ in range(10):
            self.overlaps += bool(self.others and self.others())
            time.sleep(0.005)
        self.working.clear()
        self.turns += 1
        return Evaluation(verdict="accepted", device=DEVICE)

    def evaluate_final(self, candidate, on_stage, seconds=None) -> Evaluation:
        return self.evaluate(candidate, on_stage)


@dataclass
class Talker:
    """A model that takes a moment, and counts how many answers it is busy with."""

    name: str = "talker"
    busy: int = 0
    answered: int = 0
    changed: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, ask, on_text) -> Reply:
        with self.changed:
            self.busy += 1
        time.sleep(0.02)
        with self.changed:
            self.busy -= 1
            self.answered += 1
        return Reply("done")

    def close(self) -> None:
        pass


@pytest.mark.long
def test_no_answer_is_generated_while_a_candidate_is_judged(tmp_path):
    talker = Talker()
    lock = GpuLock("x", tmp_path)
    model = DrainedModel(talker, Gate(lock.shared))
    judge = Counted(others=lambda: talker.busy)
    quiet = ExclusiveGpuJudge(judge, lock, (model,), lambda _: None)
    stop = threading.Event()

    def talk() -> None:
        while not stop.is_set():
            model.reply(ask(), lambda _: None)

    talkers = [threading.Thread(target=talk) for _ in range(4)]
    for item in talkers:
        item.start()
    for _ in range(10):
        before = talker.answered
        quiet.evaluate(Candidate("x"), lambda _: None)
        assert wait_for(lambda: talker.answered > before)  # noqa: B023 - awaited at once
    stop.set()
    for item in talkers:
        item.join(PATIENCE_S)
    assert (judge.turns, judge.overlaps) == (10, 0)


def test_answer_in_flight_is_waited_for_and_not_cut_off():
    finish, began, closed = threading.Event(), threading.Event(), threading.Event()
    gate = Gate()

    def answer() -> None:
        with gate.generating():
            began.set()
            finish.wait(PATIENCE_S)

    def close() -> None:
        gate.close()
        closed.set()

    threading.Thread(target=answer, daemon=True).start()
    assert began.wait(PATIENCE_S)
    threading.Thread(target=close, daemon=True).start()
    assert not closed.wait(0.2)
    finish.set()
    assert closed.wait(PATIENCE_S)


def test_gate_opens_again_when_the_judge_fails(tmp_path):
    class Broken(Counted):
        def evaluate(self, candidate, on_stage):
            raise EnvironmentFault("the judge is gone")

    talker = Talker()
    model = DrainedModel(talker, Gate())
    quiet = ExclusiveGpuJudge(Broken(), GpuLock("x", tmp_path), (model,), lambda _: None)
    with pytest.raises(EnvironmentFault):
        quiet.evaluate(Candidate("x"), lambda _: None)
    assert model.reply(ask(), lambda _: None).text == "done"


def test_failed_waking_leaves_the_gate_usable():
    tries = []

    def wake() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ModelError("cannot wake")

    gate = Gate(before_first=wake)
    with pytest.raises(ModelError), gate.generating():
        pass
    with gate.generating():
        assert len(tries) == 2


HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_SH if sys.argv[2] == "shared" else fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def holding(path: Path, kind: str) -> subprocess.Popen:
    path.touch()
    item = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert item.stdout.readline() == b"held\n"
    return item


@pytest.mark.parametrize("kind", ["shared", "alone"])
def test_timing_waits_for_another_process_and_says_which(tmp_path, kind):
    lock = GpuLock("GPU-1", tmp_path)
    other = holding(lock.path, kind)
    reported, taken = [], threading.Event()

    def time_it() -> None:
        with lock.alone(reported.append):
            taken.set()

    threading.Thread(target=time_it, daemon=True).start()
    assert wait_for(lambda: reported)
    assert str(other.pid) in reported[0]
    assert str(lock.path) in reported[0]
    assert not taken.wait(0.2)
    other.communicate()
    assert taken.wait(PATIENCE_S)
    assert len(reported) == 1


def test_generation_in_two_processes_goes_on_side_by_side(tmp_path):
    lock = GpuLock("GPU-1", tmp_path)
    other = holding(lock.path, "shared")
    reported = []
    with lock.shared(reported.append):
        assert reported == []
    other.communicate()


def test_lock_of_a_killed_process_is_free(tmp_path):
    lock = GpuLock("GPU-1", tmp_path)
    other = holding(lock.path, "alone")
    other.kill()
    other.communicate()
    with lock.alone():
        pass


def test_lock_that_is_a_link_or_a_folder_is_refused(tmp_path):
    lock = GpuLock("GPU-1", tmp_path)
    lock.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentFault, match="cannot be opened"), lock.alone():
        pass
    lock.path.unlink()
    lock.path.mkdir()
    with pytest.raises(EnvironmentFault, match="is no file"), lock.alone():
        pass


@pytest.mark.parametrize(
    ("named", "found"),
    [("0", "GPU-aaaa-1"), ("1", "GPU-bbbb-2"), ("GPU-b", "GPU-bbbb-2"), ("7", "7")],
)
def test_gpu_is_found_by_index_or_by_the_beginning_of_its_uuid(named, found):
    assert chosen(TABLE, named).id == found


@pytest.mark.parametrize(
    ("device", "visible", "named"),
    [("cuda", "", "0"), ("auto", "3,1", "3"), ("cuda:1", "3,1", "1"), ("cuda:1", "", "1")],
)
def test_device_is_counted_among_the_visible_ones(device, visible, named):
    table_less = {"CUDA_VISIBLE_DEVICES": visible, "PATH": ""}
    wanted = chosen("", named).id
    result = gpu_of(device, table_less)
    assert result.id == wanted or result.id.startswith("GPU-")


@pytest.fixture
def serving(monkeypatch, tmp_path):
    if importlib.util.find_spec("litellm") is None:
        pytest.skip("the extra [llm] is not installed")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KERNELAGENT_LOCKS", str(tmp_path))
    monkeypatch.delenv("HOSTED_VLLM_API_KEY", raising=False)


def settings(folder: Path, events: list, gpu: Gpu | None) -> ModelSettings:
    return ModelSettings(
        problem=ProblemSpec(path="x.py"),
        facts=FACTS,
        target="sm_90",
        device="cuda" if gpu else "virtual",
        gpu=gpu,
        folder=folder,
        publish=events.append,
    )


@pytest.mark.long
def test_server_sleeps_while_candidates_are_judged_and_wakes_for_the_next_ask(serving, tmp_path):
    folder = checkpoint(tmp_path / "tiny", says="use one program per row", speaks_for_s=0.2)
    gpu = Gpu("GPU-1", 80 << 30)
    events: list[Any] = []
    model = load_model(f"vllm:{folder}", settings(tmp_path, events, gpu))
    try:
        assert isinstance(model, Pausable)
        quiet = ExclusiveGpuJudge(Counted(), GpuLock(gpu.id), (model,), lambda _: None)
        reported: list[str] = []
        first = model.reply(ask(), reported.append)
        assert (first.text, first.dollars) == ("use one program per row", 0.0)
        assert first.remark is None
        assert "".join(reported) == first.text
        quiet.evaluate(Candidate("a"), lambda _: None)
        quiet.evaluate(Candidate("b"), lambda _: None)
        model.reply(ask(1), lambda _: None)
    finally:
        model.close()
    wanted = ["ask", "answered", "sleep", "wake_up", "ask", "answered"]
    assert asked_of(folder) == wanted
    phases = [item.phase for item in events if isinstance(item, ServerProgress)]
    assert phases == ["starting", "ready", "stopped"]
    shown = next(item.message for item in events if isinstance(item, Remarked))
    assert "GPU memory 80.0 GiB" in shown
    assert "--gpu-memory-utilization 0.9" in shown
    assert not any(map(runs, pids_of(folder).values()))


@pytest.mark.long
def test_asks_side_by_side_end_before_a_timing_and_the_rest_waits(serving, tmp_path):
    folder = checkpoint(tmp_path / "tiny", speaks_for_s=0.3)
    gpu = Gpu("GPU-1", 80 << 30)
    model = load_model(f"vllm:{folder}", settings(tmp_path, [], gpu))
    judge = Counted()
    quiet = ExclusiveGpuJudge(judge, GpuLock(gpu.id), (model,), lambda _: None)
    try:
        asks = [
            threading.Thread(target=model.reply, args=(ask(turn), lambda _: None))
            for turn in range(4)
        ]
        for item in asks:
            item.start()
        assert wait_for(lambda: (folder / "asked.jsonl").exists())
        quiet.evaluate(Candidate("a"), lambda _: None)
        for item in asks:
            item.join(PATIENCE_S)
    finally:
        model.close()
    asked = asked_of(folder)
    before = asked[: asked.index("sleep")]
    assert before.count("ask") == before.count("answered") > 0
    assert asked.count("answered") == 4


@pytest.mark.long
def test_on_virtual_the_server_never_sleeps(serving, tmp_path):
    folder = checkpoint(tmp_path / "tiny")
    model = load_model(f"vllm:{folder}", settings(tmp_path, [], None))
    try:
        model.reply(ask(), lambda _: None)
        model.pause()
        model.resume()
        model.reply(ask(1), lambda _: None)
    finally:
        model.close()
    assert asked_of(folder) == ["ask", "answered", "ask", "answered"]


@pytest.mark.long
def test_server_that_dies_when_asked_is_said_with_the_end_of_its_log(serving, tmp_path):
    folder = checkpoint(tmp_path / "tiny", dies_when_asked=True)
    model = load_model(f"vllm:{folder}", settings(tmp_path, [], None))
    try:
        with pytest.raises(ModelError, match="out of memory, as it were"):
            model.reply(ask(), lambda _: None)
    finally:
        model.close()


def test_a_single_evaluation_has_the_gpu_to_itself_and_none_is_held_on_virtual(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("KERNELAGENT_LOCKS", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-of-this-test")
    lock = GpuLock("GPU-of-this-test")
    message: list[str] = []
    ended = threading.Event()

    def evaluating() -> None:
        with alone_on(DEVICE, "cuda:0", message.append):
            ended.set()

    with lock.shared():
        other = threading.Thread(target=evaluating)
        other.start()
        wait_for(lambda: message)
        assert not ended.is_set()
        with alone_on(replace(DEVICE, kind="virtual"), "virtual", message.append):
            pass
    other.join(PATIENCE_S)
    assert ended.is_set()
    assert len(message) == 1
    assert "the GPU is in use by process" in message[0]
