"""Time that a forward spends on the host in its own Python, which no estimate of the device has in it.

What is looked at is counted in lines and calls, which no busy machine changes. Besides there is the clock:
sleeping counts like computing. The smallest of many calls is taken, so that a busy machine makes nobody
slow; whoever is slow even so is looked at again with torch's own time left out.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.training_step import take
from kernelagent.tools.judge.bounds.counted_calls import real_step
from kernelagent.tools.judge.bounds.real_work import (
    NEEDS_VALUES,
    Start,
    make_ready,
    reference_rows,
)
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import OnTheHost
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.virtual.cost.eager import timed_rows

_FEWEST = 5
"""With fewer calls the smallest time says little."""
_LEAST_S = 1e-3
_OF_A_LAUNCH_S = 3e-4
"""What Triton's own way to a launch takes in the runner besides the launch."""
_LOOKS = 8
"""So often that many calls are made before one counts as slow: on a busy machine most calls of a few milliseconds are
interrupted, but not all."""
_OF_REFERENCE = 5.0
"""How much longer than the reference's own Python a candidate's may take."""


# What one forward may do in Python: a base, and an allowance for each kernel launch of the candidate and for
# each torch operation of the reference.
_LINES = 1000
"""Lines of its own Python."""
_LINES_OF_A_LAUNCH = 200
_LINES_OF_AN_OPERATION = 20
_CALLS = 300
"""Calls of torch's functions."""
_CALLS_OF_A_LAUNCH = 50
_CALLS_OF_AN_OPERATION = 10
_ELSEWHERE_S = 3e-4
"""Time in functions of other libraries."""
_ELSEWHERE_OF_A_LINE_S = 1e-6
"""Of lines that such a function calls back; following one takes as long."""
_BUSY_S = 6e-5
"""Work of the thread in its own lines and in functions of other libraries, of stretches that are longer than a few
lines: a forward that makes memory, asks for sizes and launches has next to none."""
_BUSY_OF_A_LAUNCH_S = 1e-5
"""Beside eight other judgings two honest forwards of six launches were measured at 0.12 and 0.13 ms; half of this refused
their estimates."""
_BUSY_OF_A_LINE_S = 4e-7
"""Of what following a line takes so much may be left in it."""
_BUSY_CALLS = 8
"""Where a judged call is busier than that, the least of so many others counts: another process slows these as well."""
_VALUES = 64
"""Values that Triton looks at when it launches."""
_VALUES_OF_AN_OPERATION = 4


@dataclass(frozen=True)
class Allowed:
    """What a forward may do in Python before it is reported."""

    lines: int
    calls: int
    elsewhere_s: float
    values: int

    @classmethod
    def of(cls, launches: int, operations: int) -> Allowed:
        """`launches`: of one call; `operations`: of torch, in the reference."""
        return cls(
            _LINES + launches * _LINES_OF_A_LAUNCH + operations * _LINES_OF_AN_OPERATION,
            _CALLS + launches * _CALLS_OF_A_LAUNCH + operations * _CALLS_OF_AN_OPERATION,
            _ELSEWHERE_S + launches * _OF_A_LAUNCH_S,
            max(1, launches) * _VALUES + operations * _VALUES_OF_AN_OPERATION,
        )

    def beyond(self, done: OnTheHost) -> str | None:
        """What is more, in words."""
        more = []
        if done.lines > self.lines:
            more.append(f"runs {done.lines:,} lines of its own Python")
        if done.calls > self.calls:
            more.append(f"calls functions of torch {done.calls:,} times")
        if done.elsewhere_s > self.elsewhere_s + done.lines * _ELSEWHERE_OF_A_LINE_S:
            more.append(f"spends {1e3 * done.elsewhere_s:.1f} ms in functions of other libraries")
        if done.values > self.values:
            more.append(
                f"hands {done.values:,} values to its launches, at each of which Triton looks"
            )
        return ", ".join(more) or None


def counted(context: JudgeContext, findings: Findings) -> Disclosure | None:
    """The disclosure of a candidate that did much in Python in every call that was looked at."""
    launches = Counter(str(row["input_set"]) for row in findings.launches)
    for source in context.sources:
        done = findings.host_work.get(source.name)
        if done is None or Allowed.of(launches[source.name], 0).beyond(done) is None:
            continue
        try:
            operations = len(reference_rows(context, source))
        except NEEDS_VALUES:
            operations = 0
        what = Allowed.of(launches[source.name], operations).beyond(done)
        if what is not None:
            return Disclosure(
                "host_time",
                f"each forward {what} on the host (input set {source.name!r}): its time is not that of its "
                f"kernels, and there is no estimate of it",
            )
    return None


def busy(context: JudgeContext, start: Start, findings: Findings) -> Disclosure | None:
    """The disclosure of a candidate whose own lines, few as they are, take long in every call that is looked at."""
    launches = Counter(str(row["input_set"]) for row in findings.launches)
    for source in context.sources:
        done = findings.host_work.get(source.name)
        if done is None:
            continue
        limit = _BUSY_S + done.lines * _BUSY_OF_A_LINE_S
        limit += launches[source.name] * _BUSY_OF_A_LAUNCH_S
        if done.busy_s <= limit:
            continue
        least = min(done.busy_s, *_busy_seconds(context, start, source))
        if least > limit:
            return Disclosure(
                "host_time",
                f"each forward works at least {1e3 * least:.2f} ms in lines of its own Python, and in functions that "
                f"they call, on the host (input set {source.name!r}): its time is not that of its kernels, and there "
                f"is no estimate of it",
            )
    return None


def _busy_seconds(context: JudgeContext, start: Start, source: InputSource) -> Iterator[float]:
    with start() as process:
        make_ready(context, process)
        for _ in range(_BUSY_CALLS):
            arguments = draw(source)
            process.account(arguments, contents=True)
            if process.host_work is not None:
                yield process.host_work.busy_s


def looks_slow(process: CandidateProcess, launches: int) -> bool:
    """Whether none of the judged calls was quick; `launches`: of one call, at most."""
    calls = _seconds(process)
    return len(calls) >= _FEWEST and min(calls) > _LEAST_S + launches * _OF_A_LAUNCH_S


def host_time(context: JudgeContext, start: Start) -> Disclosure | None:
    """The disclosure of a candidate that is slow on the host on some input set; None for any other."""
    with start() as process:
        make_ready(context, process)
        for source in context.sources:
            wanted, taken, limit = _references(context, source), math.inf, 0.0
            for _ in range(_LOOKS):
                launches, least = _candidates(context, process, source)
                limit = max(_LEAST_S + launches * _OF_A_LAUNCH_S, _OF_REFERENCE * wanted)
                taken = min(taken, least)
                if taken <= limit:
                    break
            if taken > limit:
                return Disclosure(
                    "host_time",
                    f"each forward spends at least {1e3 * taken:.1f} ms in its own Python on the host "
                    f"(input set {source.name!r}; the reference {1e3 * wanted:.1f} ms): its time is not "
                    f"that of its kernels, and there is no estimate of it",
                )
    return None


def _candidates(
    context: JudgeContext, process: CandidateProcess, source: InputSource
) -> tuple[int, float]:
    """Launches of a forward, and the least time besides them and torch's operations."""
    process.take_launches()
    _seconds(process)
    for _ in range(_FEWEST):
        arguments = draw(source)
        # What follows its lines would be in the time.
        process.account(arguments, real_step(context, arguments), contents=True, followed=False)
    calls = _seconds(process)
    if len(calls) != _FEWEST:
        raise Rejected("tampering", "the candidate's process tells of other calls than were made")
    return len(process.take_launches()) // _FEWEST, min(calls)


def _references(context: JudgeContext, source: InputSource) -> float:
    taken = []
    module, target = context.oracle.module, context.device.target
    for _ in range(_FEWEST):
        arguments = draw(source)
        step = real_step(context, arguments)
        with context.judge_device.scope():
            began = time.perf_counter()
            if step is None:
                _, of_torch = timed_rows(module, *arguments, target)
            else:
                _, of_torch = timed_rows(take, (module, arguments, step), {}, target)
            taken.append(time.perf_counter() - began - of_torch)
    return max(0.0, min(taken))


def _seconds(process: CandidateProcess) -> Sequence[float]:
    """Of each call since the last time, as the runner has them; raises `Rejected`."""
    calls = process.ask_about_device({"kind": "facts", "of": "host"}, None).get("host")
    if not isinstance(calls, list) or not all(isinstance(item, float) for item in calls):
        raise Rejected("tampering", "the candidate's process tells its times in no known form")
    return calls
