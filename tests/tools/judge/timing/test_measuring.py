"""The measurement end to end, on the CPU as the device: real processes, the judge's clock, real cheats.

A GPU is not needed to see that blocks, chain, replay and intervals fit together; what only a GPU has
(streams, launches that are queued) is not tried here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.contribution import check
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.timing import chained, clock, measuring
from kernelagent.tools.judge.timing.blocks import Running, silent
from kernelagent.tools.judge.timing.measuring import Measured, measure
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import Limits
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.sandbox.spawn import ForkServer

pytestmark = pytest.mark.long

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256, 256) / 16)

    def forward(self, x):
        for _ in range(24):
            x = torch.tanh(x @ self.weight)
        return x

def get_inputs():
    return [torch.randn(64, 256)]
"""
HONEST = PROBLEM.replace("class Model(", "class ModelNew(")
FASTER = HONEST.replace(
    "        for _ in range(24):\n            x = torch.tanh(x @ self.weight)\n",
    "        weight = self.weight\n        for _ in range(24):\n            x = (x @ weight).tanh_()\n",
)
FORGETFUL = HONEST.replace("for _ in range(24)", "for _ in range(23)")
REMEMBERING = HONEST.replace(
    "    def forward(self, x):\n",
    "        self.seen = {}\n\n    def forward(self, x):\n"
    "        key = x.data_ptr()\n"
    "        if key not in self.seen:\n"
    "            self.seen[key] = (x, self.work(x))\n"
    "        return self.seen[key][1]\n\n"
    "    def work(self, x):\n",
)


@pytest.fixture(scope="module")
def context(fork_server: ForkServer) -> Iterator[JudgeContext]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.py"
        path.write_text(PROBLEM, encoding="utf-8")
        settings = JudgeSettings(ProblemSpec(path=str(path)), device="virtual", policy="any")
        opened = JudgeContext.open(settings, fork_server)
        yield opened
        opened.close()


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks and few inputs: it is the machinery that is tested, not this machine's noise."""
    monkeypatch.setattr(measuring, "_MOST_ROTATED", 4)
    monkeypatch.setattr(measuring, "_TURN_S", 0.0)
    monkeypatch.setattr(measuring, "_CERTIFICATE_S", 0.0)
    monkeypatch.setattr(measuring, "_modes", lambda context: ())
    monkeypatch.setattr(clock, "_BLOCK_S", 0.01)


@pytest.fixture
def a_shared_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """For honest modules alone: threads that wait for each other are no device that runs by itself."""
    monkeypatch.setattr(chained, "_TOLERANCE", 2.0)


def measured(
    context: JudgeContext,
    source: str,
    tmp_path: Path,
    *,
    certificate: bool = False,
    running: Running = silent,
    started: list[CandidateProcess] | None = None,
) -> Measured:
    number = iter(range(100))

    @contextmanager
    def start() -> Iterator[CandidateProcess]:
        scratch = tmp_path / str(next(number))
        scratch.mkdir()
        process = CandidateProcess(
            context.fork_server,
            source=source,
            device="virtual",
            target=context.device.target,
            scratch=scratch,
            limits=Limits(),
            sandboxed=True,
        )
        with process:
            process.load()
            context.construct(process)
            process.use_weights(context.oracle.given_weights)
            if started is not None:
                started.append(process)
            yield process

    return measure(context, start, running, certificate=certificate, attempts=1)


@pytest.mark.usefixtures("a_shared_cpu")
def test_the_module_itself_is_as_fast_as_itself(context: JudgeContext, tmp_path: Path) -> None:
    result = measured(context, HONEST, tmp_path)
    assert result.timing.speedup_eager.low < 1.3
    assert result.timing.speedup_eager.high > 0.7
    assert result.timing.candidate_us > 10
    assert result.headroom is not None
    assert result.headroom.attained < 1
    assert result.timing.as_called_us == result.timing.candidate_us
    assert result.timing.device_us is not None
    # Taken at another moment: on a busy machine the two differ.
    assert result.timing.device_us < 4 * result.timing.candidate_us


@pytest.mark.usefixtures("a_shared_cpu")
def test_a_certificate_starts_fresh_processes_and_says_what_noise_there_is(
    context: JudgeContext, tmp_path: Path
) -> None:
    reported: list[tuple[int, int]] = []
    started: list[CandidateProcess] = []
    running = lambda done, of: reported.append((done, of))  # noqa: E731
    result = measured(context, FASTER, tmp_path, certificate=True, running=running, started=started)
    assert reported[0] == (3, 18)
    assert all(done <= of for done, of in reported)
    assert len(started) == 6
    floor = result.timing.noise_floor
    assert floor is not None
    assert floor.low <= 1.1
    assert floor.high >= 0.9
    assert set(result.by_set) == {"default"}


def test_what_is_timed_has_the_given_weights_and_so_has_what_it_is_compared_with(
    context: JudgeContext, tmp_path: Path
) -> None:
    given = context.oracle.given_weights
    # As a round of the verification leaves it.
    context.oracle.use_weights({name: value + 1 for name, value in given.items()})
    start = partial(
        CandidateProcess,
        context.fork_server,
        source=HONEST,
        device="virtual",
        target=context.device.target,
        scratch=tmp_path,
        limits=Limits(),
        sandboxed=True,
    )
    with check._fresh(context, start) as process:  # noqa: SLF001 - the process that the chain is timed in
        state = process.state()
    for name, value in given.items():
        assert torch.equal(state[name], value)
        assert torch.equal(context.oracle.weights[name], value)


def test_answers_of_the_chain_are_judged(context: JudgeContext, tmp_path: Path) -> None:
    with pytest.raises(Rejected) as refused:
        measured(context, FORGETFUL, tmp_path)
    assert refused.value.reason.code == "wrong_output"


def test_answers_from_memory_are_seen_by_the_chain(context: JudgeContext, tmp_path: Path) -> None:
    with pytest.raises(Rejected) as refused:
        measured(context, REMEMBERING, tmp_path)
    assert refused.value.reason.code in {"inconsistent_timing", "wrong_output", "stale_output"}
