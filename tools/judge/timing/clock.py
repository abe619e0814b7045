"""The judge's own clock around processes that call a module many times: per-call time as a slope.

(T(2N) - T(N)) / N cancels whatever happens once per block. The clock stands in the judge; nothing
the timed process says about time is used.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from kernelagent.domain.errors import EnvironmentFault
from kernelagent.domain.serialization import to_data
from kernelagent.tools.calls.tensors import Parcel, open_parcel, parcel
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.wire import Frame, pair

_BASELINE = "kernelagent.tools.cuda.baseline:serve"
_BLOCK_S = 0.02
"""The clock and the round trip to the process add an uncertainty of about 0.05 % of it (10 us)."""
_MOST_CALLS = 1 << 16
_TRIES = 6
"""Each with twice the calls of the one before."""
_ANSWER_S = 600.0


class Unmeasurable(Exception):
    """Twice as many calls repeatedly took no longer, so there is no per-call time."""


class Timed(Protocol):
    """A process under the clock."""

    def ask(self, header: dict[str, Any], body: Parcel | None = None) -> Frame: ...

    def opened(self, frame: Frame) -> Any: ...


@dataclass(frozen=True)
class CandidateTimed:
    """The candidate's runner as the clock asks it."""

    process: CandidateProcess

    def ask(self, header: dict[str, Any], body: Parcel | None = None) -> Frame:
        return self.process.ask_about_time(header, body)

    def opened(self, frame: Frame) -> Any:
        return self.process.opened(frame)


@dataclass(frozen=True)
class BaselineTimed:
    """The user's own module in a process of its own; trusted, so confined to nothing but its scratch."""

    channel: Any

    @classmethod
    def start(cls, context: JudgeContext, stack: ExitStack, mode: str | None) -> BaselineTimed:
        """`mode`: of torch.compile; None runs eager. `stack` ends the process."""
        ours, theirs = pair()
        settings = {
            "problem": to_data(context.settings.problem),
            # It begins in a scratch, where a relative path leads nowhere.
            "folder": str(context.folder),
            "compile": mode,
            "device": context.judge_device.torch_device,
            "target": context.device.target,
            # The fork server knows no folder of the user's, and the user's module may import from them.
            "path": list(sys.path),
        }
        child = context.fork_server.fork(
            _BASELINE,
            settings,
            [theirs.socket.fileno()],
            # One for all: what torch.compile has compiled once need not be compiled again.
            Confinement.trusted(context.baselines),
        )
        theirs.close()
        stack.callback(ours.close)
        stack.callback(child.kill)
        timed = cls(ours)
        timed.ask({"kind": "weights"}, parcel(dict(context.oracle.given_weights)))
        return timed

    def ask(self, header: dict[str, Any], body: Parcel | None = None) -> Frame:
        given = {} if body is None else {"parcel": body.header}
        payload = () if body is None else body.payload
        self.channel.send(header | given, payload, timeout=_ANSWER_S)
        answer: Frame = self.channel.receive(
            timeout=_ANSWER_S, max_header=1 << 26, max_payload=1 << 34
        )
        if answer.kind == "failed":
            raise EnvironmentFault(
                f"the baseline cannot be timed: the user's own module fails in a process of its own: "
                f"{answer.header.get('message')}"
            )
        return answer

    def opened(self, frame: Frame) -> Any:
        return open_parcel(frame.header["parcel"], frame.payload)


@dataclass(frozen=True)
class Chain:
    """One timed chain: what picked its first inputs, told when the clock started, and its digests."""

    secret: int
    digests: torch.Tensor
    """What its answers came to, int64, in their order."""
    seconds: float

    def before(self, call: int) -> int:
        """The state that picked the inputs of `call`."""
        return self.secret if call == 0 else int(self.digests[call - 1])


class Side:
    """One process with prepared inputs, and how many of its calls make a block."""

    def __init__(self, timed: Timed, clock: Callable[[], float] = time.perf_counter) -> None:
        self.timed = timed
        self._clock = clock
        self._calls = 1
        self.peak_bytes: int | None = None
        self._links: dict[bool, int] = {}
        """How many calls fill a block in a chain, by whether it is empty."""

    def prepare(self, given: Parcel) -> None:
        """Send argument sets and a training step (or None), and find how many calls fill a block."""
        self.timed.ask({"kind": "prepare"}, given)
        self._calls = _filling(self._block)
        self._links = {}

    def per_call_us(self, longer: int = 1) -> float:
        """One block as called: launches are queued as fast as they come, inputs rotate.

        `longer`: how many times as many calls as fill a block, for a clock that others disturb.
        """
        return _slope(self._block, self._calls * longer)

    def picking_us(self, longer: int = 1) -> float:
        """What picking inputs takes in a chain whose answers are there already."""
        return self._linked(longer, empty=True)[0]

    def chained(self, longer: int = 1) -> tuple[float, Chain]:
        """Microseconds of a call that waits for the bytes of the one before, and one chain so timed."""
        return self._linked(longer, empty=False)

    def _linked(self, longer: int, *, empty: bool) -> tuple[float, Chain]:
        # Calls on unpredictable inputs may be slower, so the number of calls per block is found separately for chains.
        if empty not in self._links:
            self._links[empty] = _filling(lambda calls: self._chain(calls, empty=empty).seconds)
        timed: list[Chain] = []

        def block(calls: int) -> float:
            timed.append(self._chain(calls, empty=empty))
            return timed[-1].seconds

        return _slope(block, self._links[empty] * longer), timed[-1]

    def _block(self, calls: int) -> float:
        began = self._clock()
        frame = self.timed.ask({"kind": "time", "calls": calls})
        seconds = self._clock() - began
        reported = frame.header.get("peak_bytes")
        self.peak_bytes = reported if isinstance(reported, int) else None
        return seconds

    def _chain(self, calls: int, *, empty: bool) -> Chain:
        secret = secrets.randbelow(1 << 62)
        request = {"kind": "chain", "calls": calls, "secret": secret, "empty": empty}
        began = self._clock()
        frame = self.timed.ask(request)
        seconds = self._clock() - began
        digests = self.timed.opened(frame)
        if not isinstance(digests, torch.Tensor) or digests.shape != (calls,):
            raise Unmeasurable("the chained calls came back without their digests")
        return Chain(secret, digests, seconds)


def prepare_sides(
    sides: Iterable[Side], sets: Sequence[Any], step: TrainingStep | None = None
) -> None:
    """Send the argument sets to every side; with a `step` a call is a forward and its backward.

    They are packed once for all: on a GPU that copies all of them to the host.
    """
    given = parcel((list(sets), None if step is None else step.as_value()))
    for side in sides:
        side.prepare(given)


def _filling(block: Callable[[int], float]) -> int:
    """How many calls make a block long enough for the clock."""
    calls = 1
    while calls < _MOST_CALLS:
        # The faster of two runs: a run slowed by other load must not make blocks too short.
        seconds = min(block(calls), block(calls))
        if seconds >= _BLOCK_S:
            break
        calls *= 2 if seconds > _BLOCK_S / 8 else 8
    return calls


def _slope(block: Callable[[int], float], calls: int) -> float:
    for _ in range(_TRIES):
        once, twice = block(calls), block(2 * calls)
        if twice > once:
            return (twice - once) / calls * 1e6
        calls *= 2
    raise Unmeasurable(f"{2 * calls} calls took no longer than {calls}")
