"""Measures candidate and baselines: one clock, the judge's, in interleaved blocks of rotated inputs.

The number is the time as called, launches included, on both sides. It counts only if a chain of
calls, in which each input depends on the previous output, takes no longer than
calling and picking take one by one: work that was put off, or done once for many calls, would.
A turn times one process a side; a certificate starts fresh ones, at least six times, because what a
process keeps for its whole life is the same in all its blocks. Never run on a GPU so far.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from kernelagent.domain.evaluation import Disclosure, HeadroomFacts, Interval, Timing
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.cuda.certificate import (
    Block,
    Rules,
    certify,
    measure_block,
    ratio_of,
    shuffled,
    turn_interval,
)
from kernelagent.tools.cuda.sequence import FEWEST as _FEWEST_LAUNCHES
from kernelagent.tools.cuda.statistics import geometric_mean, interval_of, narrow_enough
from kernelagent.tools.judge.bounds.headroom import facts_of, implausible, most_left
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.steps.steps import single_step
from kernelagent.tools.judge.problem.steps.training import WITH_BACKWARD
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.interpreted_work import bytes_in
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.timing.blocks import Blocks, Running, silent
from kernelagent.tools.judge.timing.chained import Chained, cross_examine
from kernelagent.tools.judge.timing.clock import (
    BaselineTimed,
    CandidateTimed,
    Side,
    Unmeasurable,
    prepare_sides,
)
from kernelagent.tools.judge.timing.observed import graph_time
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

Start = Callable[[], AbstractContextManager[CandidateProcess]]
"""A fresh process of the candidate, loaded, constructed and with the given weights."""
_ROTATED_BYTES = 256 << 20
"""Bytes of the rotated argument sets, larger than any GPU's L2 cache unless the inputs are very small."""
_MOST_ROTATED = 256
_INTERVAL = 0.02
_FEWEST_BLOCKS = 6
_BLOCKS_A_LAUNCH = 3
_TURN_S, _CERTIFICATE_S = 3.0, 60.0
_AGAIN = "eager again"


@dataclass(frozen=True)
class Measured:
    """All input sets' timings, their summary and what is left."""

    timing: Timing
    by_set: dict[str, Timing]
    headroom: HeadroomFacts | None
    disclosures: tuple[Disclosure, ...]


@dataclass
class _Collected:
    """The blocks of all launches so far, and what the processes said of their memory."""

    by_set: dict[str, list[Block]] = field(default_factory=dict)
    compiled: dict[str, list[Block]] = field(default_factory=dict)
    chained: dict[str, Chained] = field(default_factory=dict)
    replayed: dict[str, tuple[float | None, str | None]] = field(default_factory=dict)
    """Microseconds of a graph's replay by input set, or why there is none."""
    peak_bytes: dict[str, int] = field(default_factory=dict)
    progress: Blocks = field(default_factory=Blocks)

    def keep_peak(self, sides: Mapping[str, Side]) -> None:
        for name, side in sides.items():
            if side.peak_bytes is not None:
                self.peak_bytes[name] = max(self.peak_bytes.get(name, 0), side.peak_bytes)

    def replay(self, context: JudgeContext, process: CandidateProcess) -> None:
        """A graph's time of each input set; the last thing a process does, for a failed capture spoils it."""
        for source in context.sources:
            arguments = draw(source)
            try:
                self.replayed[source.name] = graph_time(process, arguments)
            except Rejected as broken:
                self.replayed[source.name] = None, str(broken).splitlines()[0][:200]
                return


def measure(
    context: JudgeContext,
    start: Start,
    running: Running = silent,
    *,
    certificate: bool,
    attempts: int,
) -> Measured:
    """Time the candidate against eager and torch.compile on every input set; raises `Rejected`.

    `running`: is told now and then how many blocks are done.
    `attempts`: how often this problem's candidates have been certified, this time included.
    """
    result = _Collected(progress=Blocks(running))
    try:
        if certificate:
            together, by_set = _certified(context, start, result)
        else:
            together, by_set = _ranked(context, start, result)
    except Unmeasurable as fault:
        raise Rejected(
            "inconsistent_timing",
            f"the calls cannot be timed: {fault}; work must be done in the call that asks for it",
        ) from fault
    timings = {
        source.name: _timing(result, source.name, by_set[source.name], attempts)
        for source in context.sources
    }
    left = [_left(context, name, timing) for name, timing in timings.items()]
    summary = _summary(timings, together, result, attempts)
    in_cache = [
        note
        for source in context.sources
        if (note := cached_inputs(source, context.device.l2_bytes)) is not None
    ]
    return Measured(
        summary,
        timings,
        most_left(facts for facts in left if facts is not None),
        (
            *_disclosures(result, certificate=certificate),
            *in_cache,
            *(WITH_BACKWARD if context.trains else ()),
        ),
    )


def _ranked(
    context: JudgeContext, start: Start, collected: _Collected
) -> tuple[Interval, dict[str, Interval]]:
    """One process a side: enough to rank a turn."""
    by_set: dict[str, Interval] = {}
    with ExitStack() as stack:
        process = stack.enter_context(start())
        sides = {
            "candidate": Side(CandidateTimed(process)),
            "eager": Side(BaselineTimed.start(context, stack, None)),
        }
        compiled = {
            mode: Side(BaselineTimed.start(context, stack, mode)) for mode in _modes(context)
        }
        for source in context.sources:
            sets = rotated(context, source)
            step = timed_step(context, sets)
            prepare_sides([*sides.values(), *compiled.values()], sets, step)
            blocks = collected.by_set.setdefault(source.name, [])
            collected.progress.expect(_FEWEST_BLOCKS * (len(context.sources) - len(by_set)))
            end = time.monotonic() + _TURN_S
            while True:
                blocks.append(measure_block(_clocks(sides), list(sides)))
                collected.progress.took()
                if len(blocks) < _FEWEST_BLOCKS:
                    continue
                by_set[source.name] = turn_interval(blocks, Rules())
                if narrow_enough(by_set[source.name], _INTERVAL) or time.monotonic() > end:
                    break
            _compiled(collected, source.name, sides | compiled, _FEWEST_BLOCKS)
            collected.chained[source.name] = cross_examine(
                context, source, sets, sides, process, step
            )
            collected.keep_peak(sides)
        collected.replay(context, process)
    return geometric_mean(list(by_set.values())), by_set


def _certified(
    context: JudgeContext, start: Start, collected: _Collected
) -> tuple[Interval, dict[str, Interval]]:
    """Fresh processes in every launch, eager twice: what differs between those two is noise."""
    chance = random.SystemRandom()
    end = time.monotonic() + _CERTIFICATE_S
    with ExitStack() as whole:
        compiled = {
            mode: Side(BaselineTimed.start(context, whole, mode)) for mode in _modes(context)
        }

        def launch(number: int) -> dict[str, list[Block]]:
            with ExitStack() as stack:
                process = stack.enter_context(start())
                sides = {
                    "candidate": Side(CandidateTimed(process)),
                    "eager": Side(BaselineTimed.start(context, stack, None)),
                    _AGAIN: Side(BaselineTimed.start(context, stack, None)),
                }
                made: dict[str, list[Block]] = {}
                left = max(1, _FEWEST_LAUNCHES - number)
                collected.progress.expect(left * _BLOCKS_A_LAUNCH * len(context.sources))
                for source in context.sources:
                    sets = rotated(context, source)
                    step = timed_step(context, sets)
                    prepare_sides([*sides.values(), *compiled.values()], sets, step)
                    order = shuffled(list(sides), chance)
                    made[source.name] = [
                        measure_block(_clocks(sides), order) for _ in range(_BLOCKS_A_LAUNCH)
                    ]
                    collected.by_set.setdefault(source.name, []).extend(made[source.name])
                    collected.progress.took(_BLOCKS_A_LAUNCH)
                    _compiled(collected, source.name, sides | compiled, 1)
                    if number == 0:
                        collected.chained[source.name] = cross_examine(
                            context, source, sets, sides, process, step
                        )
                collected.keep_peak(sides)
                if number == 0:
                    collected.replay(context, process)
                return made

        certificate = certify(
            launch, Rules(share=_INTERVAL), expired=lambda: time.monotonic() > end
        )
    return certificate.speedup, certificate.by_set


def _modes(context: JudgeContext) -> tuple[str, ...]:
    """The compiled baselines: the costliest mode only where the best one is what counts."""
    best = context.settings.baseline == "best"
    return ("default", "max-autotune-no-cudagraphs") if best else ("default",)


def _clocks(sides: Mapping[str, Side]) -> dict[str, Callable[[], float]]:
    return {name: side.per_call_us for name, side in sides.items()}


def _compiled(collected: _Collected, name: str, sides: Mapping[str, Side], count: int) -> None:
    wanted = {key: side for key, side in sides.items() if key not in ("eager", _AGAIN)}
    if len(wanted) > 1:
        blocks = collected.compiled.setdefault(name, [])
        blocks.extend(measure_block(_clocks(wanted), list(wanted)) for _ in range(count))


def rotated(context: JudgeContext, source: InputSource) -> list[Any]:
    """Fresh draws, together larger than any cache where they are not too small for that."""
    first = draw(source)
    count = rotations(bytes_in(first))
    rest = (draw(source) for _ in range(count - 1))
    return [first, *rest]


def rotations(size: int) -> int:
    """How many sets of arguments of `size` bytes are timed in turn."""
    return min(_MOST_ROTATED, max(2, _ROTATED_BYTES // max(size, 1)))


def cached_inputs(source: InputSource, l2_bytes: int | None) -> Disclosure | None:
    """That all sets of arguments stay in the device's L2 cache while they are timed; None if not."""
    size = bytes_in(source.full)
    count = rotations(size)
    if l2_bytes is None or count * size > l2_bytes:
        return None
    return Disclosure(
        "inputs_in_cache",
        f"input set {source.name!r} is so small ({size} bytes) that the {count} draws it is timed on "
        f"stay in the device's L2 cache ({l2_bytes >> 20} MiB), for the candidate and for the "
        f"baselines alike: both are timed with their inputs in cache",
    )


def timed_step(context: JudgeContext, sets: Sequence[Any]) -> TrainingStep | None:
    """In mode `train` the step whose forward and backward are timed, on all sides the same."""
    if not context.trains:
        return None
    generator = torch.Generator().manual_seed(fresh_seed())
    return single_step(context.oracle, sets[0], generator)


def _timing(collected: _Collected, name: str, speedup: Interval, attempts: int) -> Timing:
    blocks, compiled = collected.by_set[name], collected.compiled.get(name, [])
    modes = [side for side in (compiled[0] if compiled else ()) if side != "candidate"]
    by_mode = {mode: _middle(compiled, mode) for mode in modes}
    best = min(by_mode, key=lambda mode: by_mode[mode], default=None)
    against = None
    if best is not None and len(compiled) >= _FEWEST_BLOCKS:
        against = turn_interval(compiled, Rules(baseline=best))
    device_us = collected.replayed.get(name, (None, None))[0]
    as_called_us = _middle(blocks, "candidate")
    return Timing(
        candidate_us=as_called_us,
        as_called_us=None if device_us is None else as_called_us,
        device_us=device_us,
        eager_us=_middle(blocks, "eager"),
        speedup_eager=speedup,
        compile_us=None if best is None else by_mode[best],
        speedup_compile=against,
        noise_floor=_noise_floor(blocks),
        attempts=attempts,
        compile=by_mode,
    )


def _summary(
    timings: Mapping[str, Timing], together: Interval, collected: _Collected, attempts: int
) -> Timing:
    rows = list(timings.values())
    against = [t.speedup_compile for t in rows if t.speedup_compile is not None]
    floors = [t.noise_floor for t in rows if t.noise_floor is not None]
    compiled = [t.compile_us for t in rows if t.compile_us is not None]
    on_device = [t.device_us for t in rows if t.device_us is not None]
    replayed = median(on_device) if len(on_device) == len(rows) else None
    return Timing(
        candidate_us=median(t.candidate_us for t in rows),
        as_called_us=None if replayed is None else median(t.candidate_us for t in rows),
        device_us=replayed,
        eager_us=median(t.eager_us for t in rows),
        speedup_eager=together,
        compile_us=median(compiled) if compiled else None,
        speedup_compile=geometric_mean(against) if len(against) == len(rows) else None,
        noise_floor=geometric_mean(floors) if len(floors) == len(rows) else None,
        attempts=attempts,
        compile={mode: median(t.compile[mode] for t in rows) for mode in rows[0].compile},
        peak_bytes=collected.peak_bytes.get("candidate"),
        eager_peak_bytes=collected.peak_bytes.get("eager"),
    )


def _noise_floor(blocks: list[Block]) -> Interval | None:
    if not all(_AGAIN in block for block in blocks):
        return None
    rules = Rules(baseline="eager", candidate=_AGAIN)
    return interval_of([ratio_of([block], rules) for block in blocks])


def _middle(blocks: list[Block], side: str) -> float:
    return median(time for block in blocks for time in block[side])


def _left(context: JudgeContext, name: str, timing: Timing) -> HeadroomFacts | None:
    headroom = context.headroom.get(name)
    if headroom is None:
        return None
    impossible = implausible(timing.candidate_us, headroom)
    if impossible is not None:
        raise Rejected("implausible_speed", impossible, {"input_set": name})
    device = context.judge_device
    return facts_of(
        name,
        headroom,
        timing.candidate_us,
        device.ceilings,
        estimated=False,
        source=device.ceilings_from,
    )


def _disclosures(collected: _Collected, *, certificate: bool) -> tuple[Disclosure, ...]:
    message = [note for chained in collected.chained.values() for note in chained.disclosures]
    message += [
        Disclosure("no_graph_time", f"input set {name!r} has no graph-replay time: {why_not}")
        for name, (_, why_not) in collected.replayed.items()
        if why_not is not None
    ]
    if certificate:
        message.append(
            Disclosure(
                "compiled_once",
                "the compiled baseline was one process throughout; candidate and eager were new ones "
                "in every launch",
            )
        )
    return tuple(dict.fromkeys(message))
