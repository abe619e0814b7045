"""Time that a forward spends on the host in its own Python, which no estimate of the device has in it.

Sleeping counts like computing. The smallest of many calls is taken, so that a busy machine makes nobody
slow; whoever is slow even so is looked at again with torch's own time left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.judge.bounds.counted_calls import real_step
from kernelagent.tools.judge.bounds.real_work import Start, make_ready
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.inputs import InputSource
from kernelagent.tools.judge.problem.trials import draw
from kernelagent.tools.judge.verify.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.training_step import take
from kernelagent.tools.virtual.eager import timed_rows

_FEWEST = 5
"""With fewer calls the smallest time says little."""
_LEAST_S = 1e-3
_OF_A_LAUNCH_S = 3e-4
"""What Triton's own way to a launch takes in the runner besides the launch."""
_OF_REFERENCE = 5.0
"""How much longer than the reference's own Python a candidate's may take."""


def looks_slow(process: CandidateProcess, launches: int) -> bool:
    """Whether none of the judged calls was quick; `launches`: of one call, at most."""
    calls = _seconds(process)
    return len(calls) >= _FEWEST and min(calls) > _LEAST_S + launches * _OF_A_LAUNCH_S


def host_time(context: JudgeContext, start: Start) -> Disclosure | None:
    """The disclosure of a candidate that is slow on the host on some input set; None for any other."""
    with start() as process:
        make_ready(context, process)
        for source in context.sources:
            launches, taken = _candidates(context, process, source)
            wanted = _references(context, source)
            limit = max(_LEAST_S + launches * _OF_A_LAUNCH_S, _OF_REFERENCE * wanted)
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
        arguments = draw(source, constant=context.problem.constant_inputs)
        process.account(arguments, real_step(context, arguments), contents=True)
    calls = _seconds(process)
    if len(calls) != _FEWEST:
        raise Rejected("tampering", "the candidate's process tells of other calls than were made")
    return len(process.take_launches()) // _FEWEST, min(calls)


def _references(context: JudgeContext, source: InputSource) -> float:
    taken = []
    module, target = context.oracle.module, context.device.target
    for _ in range(_FEWEST):
        arguments = draw(source, constant=context.problem.constant_inputs)
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
