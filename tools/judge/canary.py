"""One trivial kernel through a candidate's own confined process, before any candidate: does it run here?

If it does not, that is the environment's fault and never a candidate's. Where it runs unconfined, what
stands in the way is found by trying without each tier of the sandbox in turn.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from kernelagent.domain.errors import EnvironmentFault
from kernelagent.tools.cuda.obstacles import obstacle_in
from kernelagent.tools.judge.problem.devices import JudgeDevice
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import Limits
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.sandbox.spawn import ForkServer

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def canary(x, y, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(y + at, tl.load(x + at) + 1.0)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        canary[(1,)](x, y, SIZE=256)
        return y
"""
_SIZE = 256
_LIMITS = Limits(load_s=60.0, call_s=60.0)
_LEAST_MISSED_FIRST = ("ipcns", "signal scope", "netns", "pidns", "seccomp", "landlock")
"""The sandbox tiers that can be left out, the least important first."""


@dataclass(frozen=True)
class Try:
    """Outcome of the kernel with some tiers of the sandbox disabled."""

    without: tuple[str, ...]
    failure: str | None
    """What went wrong, in the process's own words; None: it ran and was right."""
    seconds: float = 0.0
    sandboxed: bool = True
    tracing: str | None = None
    """Why the device's events could not be traced; None: they could, or nobody tried."""

    @property
    def ran(self) -> bool:
        return self.failure is None


class CanaryDevice(Protocol):
    """A device with a sandbox around its processes: a GPU, what `virtual` stands in for, a test's own."""

    @property
    def name(self) -> str: ...

    @property
    def tiers(self) -> tuple[str, ...]:
        """What the machine's kernel enforces."""

    def run_kernel(self, without: Collection[str], *, sandboxed: bool) -> Try:
        """Run the canary in a fresh process without these tiers; a failure is a value."""


@dataclass(frozen=True)
class Matrix:
    """Which tiers of the sandbox this machine's driver accepts."""

    device: str
    tries: tuple[Try, ...]
    without: tuple[str, ...] | None
    """The fewest tiers that must be left out; None: it runs in no sandbox, or not at all."""

    @property
    def full(self) -> Try:
        """The first try, with all there is."""
        return self.tries[0]

    @property
    def works_unconfined(self) -> bool:
        return any(item.ran for item in self.tries if not item.sandboxed)

    def refused(self) -> str:
        """What the full sandbox ended in, as part of a sentence."""
        return obstacle_in(self.full.failure or "").what


def examine(device: CanaryDevice, *, sandboxed: bool = True) -> Matrix:
    """Run the canary; where only the sandbox can be at fault, without each tier, then without all."""
    tries = [device.run_kernel((), sandboxed=sandboxed)]
    if not tries[0].ran and sandboxed:
        tries.append(device.run_kernel((), sandboxed=False))
    if not tries[-1].ran or len(tries) == 1:
        return Matrix(device.name, tuple(tries), () if tries[0].ran else None)
    tiers = [tier for tier in _LEAST_MISSED_FIRST if tier in device.tiers]
    single = [device.run_kernel((tier,), sandboxed=True) for tier in tiers]
    tries += single
    result = next((item.without for item in single if item.ran), None)
    if result is None and len(tiers) > 1:
        tries += (several := list(_fewer_and_fewer(device, tiers)))
        result = next((item.without for item in reversed(several) if item.ran), None)
    return Matrix(device.name, tuple(tries), result)


def _fewer_and_fewer(device: CanaryDevice, tiers: list[str]) -> Iterator[Try]:
    """Run without any tier; if that works, enable again each tier under which the kernel still runs."""
    without = list(tiers)
    first = device.run_kernel(tuple(without), sandboxed=True)
    yield first
    if not first.ran:
        return
    # The most important tier is enabled again first.
    for tier in reversed(tiers):
        fewer = tuple(item for item in without if item != tier)
        again = device.run_kernel(fewer, sandboxed=True)
        yield again
        if again.ran:
            without.remove(tier)


def require_kernel(matrix: Matrix, *, required: bool) -> tuple[str, ...]:
    """The tiers to go on without, mostly none; raises `EnvironmentFault` when no kernel can be judged.

    `required`: the whole sandbox was asked for (`--sandbox=require`).
    """
    if matrix.without is None:
        raise EnvironmentFault(_no_kernel(matrix))
    if matrix.without and required:
        raise EnvironmentFault(
            f"--sandbox=require: in the whole sandbox no kernel runs on {matrix.device}: "
            f"{matrix.refused()}. It runs without {', '.join(matrix.without)}; accept that with "
            f"--sandbox=auto"
        )
    return matrix.without


def _no_kernel(matrix: Matrix) -> str:
    if matrix.works_unconfined:
        return (
            f"no confined kernel runs on {matrix.device}, whoever wrote it: {matrix.refused()}. It runs "
            f"only without any limit on the process; if you trust the candidates, use --sandbox=off"
        )
    obstacle = obstacle_in(matrix.tries[-1].failure or "")
    return (
        f"no kernel runs on {matrix.device}, whoever wrote it: {obstacle.what}. {obstacle.remedy}. "
        f"`kernelagent doctor` tries again"
    )


@dataclass
class ConfinedCanary:
    """The canary in the very process a candidate gets."""

    fork_server: ForkServer
    device: JudgeDevice
    scratch: Path
    traced: bool = False
    """Trace the device's events too, as a profile does; only a GPU has any."""
    source: str = SOURCE
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def name(self) -> str:
        return self.device.facts.name

    @property
    def tiers(self) -> tuple[str, ...]:
        return self.fork_server.sandbox.tiers

    def run_kernel(self, without: Collection[str], *, sandboxed: bool) -> Try:
        began = time.monotonic()
        seconds, tracing = None, None
        forgo = tuple(without)
        scratch = self.scratch / f"canary-{next(self._numbers)}"
        scratch.mkdir()
        try:
            with self._process(scratch, forgo, sandboxed=sandboxed) as process:
                failure = self._failure(process)
                seconds = time.monotonic() - began
                if failure is None and self.traced:
                    tracing = self._tracing(process)
        except EnvironmentFault as fault:
            failure = str(fault)
        return Try(forgo, failure, seconds or time.monotonic() - began, sandboxed, tracing)

    def _process(
        self, scratch: Path, forgo: tuple[str, ...], *, sandboxed: bool
    ) -> CandidateProcess:
        return CandidateProcess(
            self.fork_server,
            source=self.source,
            device=self.device.kind,
            target=self.device.facts.target,
            scratch=scratch,
            limits=_LIMITS,
            sandboxed=sandboxed,
            torch_device=self.device.torch_device,
            forgo=forgo,
        )

    @property
    def _input(self) -> torch.Tensor:
        return torch.arange(_SIZE, dtype=torch.float32, device=self.device.torch_device)

    def _failure(self, process: CandidateProcess) -> str | None:
        x = self._input
        try:
            process.load()
            process.construct("init", ((), {}), training=False, keeps_random_state=True)
            output = process.call(((x,), {})).output
            if not (isinstance(output, torch.Tensor) and torch.equal(output, x + 1)):
                return "the kernel ran, and its result is wrong"
        except Rejected as refused:
            return f"{refused.reason.message}\n{process.printed().strip()}"
        return None

    def _tracing(self, process: CandidateProcess) -> str | None:
        """Why the device's events cannot be traced in there; None when they can."""
        asked = {"kind": "trace", "prefix": "canary"}
        try:
            reported = process.ask_about_device(asked, ((self._input,), {}))
        except Rejected as refused:
            return refused.reason.message
        if reported.get("why_not") is not None:
            return str(reported["why_not"])
        seen = any(row.get("cat") == "kernel" for row in reported.get("events", ()))
        return None if seen else "the trace shows no kernel"
