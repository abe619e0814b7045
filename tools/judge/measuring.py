"""Measures candidate and baselines on `cuda`: one clock, the judge's, in interleaved blocks.

Per-call time is the slope (T(2N) - T(N)) / N of the judge's own clock around N and 2N calls on
rotated inputs, so whatever happens once per block cancels. The calls are not chained yet (judge.md,
section 5), which every evaluation measured here discloses. Never run on a GPU so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from torch.utils._pytree import tree_leaves

from kernelagent.evaluation import Disclosure, Timing
from kernelagent.records import to_data
from kernelagent.tools.cuda.statistics import geometric_mean, interval_of, narrow_enough
from kernelagent.tools.judge.candidate_process import CandidateProcess
from kernelagent.tools.judge.docket import Docket
from kernelagent.tools.judge.inputs import InputSource
from kernelagent.tools.judge.trials import draw
from kernelagent.tools.processes.confinement import Confinement
from kernelagent.tools.tensors import parcel
from kernelagent.tools.wire import Channel, pair

if TYPE_CHECKING:
    from kernelagent.tools.processes.spawn import Child

_BASELINE = "kernelagent.tools.cuda.baseline:serve"
_ROTATED_BYTES = 256 << 20
"""Inputs are rotated over more than any GPU's cache."""
_MOST_ROTATED = 64
_BLOCK_S = 0.05
_INTERVAL = 0.02
_FEWEST_BLOCKS, _TURN_S, _CERTIFICATE_S = 8, 3.0, 60.0
_ANSWER_S = 600.0


@dataclass(frozen=True)
class Measured:
    """All input sets' timings and their summary."""

    timing: Timing
    by_set: dict[str, Timing]
    disclosures: tuple[Disclosure, ...]


class Side:
    """One process under the clock: the candidate, the module itself, or the module compiled."""

    def __init__(self, ask: Callable[[dict[str, Any], Any], None]) -> None:
        self._ask = ask
        self.calls = 1

    def prepare(self, sets: Sequence[Any]) -> None:
        self._ask({"kind": "prepare"}, list(sets))
        while (seconds := self._block(self.calls)) < _BLOCK_S and self.calls < 1 << 16:
            self.calls *= 2 if seconds > _BLOCK_S / 8 else 8

    def per_call_us(self) -> float:
        """One block: the slope between N and 2N calls, in microseconds."""
        once, twice = self._block(self.calls), self._block(2 * self.calls)
        return max(twice - once, 1e-9) / self.calls * 1e6

    def _block(self, calls: int) -> float:
        began = time.perf_counter()
        self._ask({"kind": "time", "calls": calls}, None)
        return time.perf_counter() - began


def measure(docket: Docket, candidate: CandidateProcess, *, certificate: bool) -> Measured:
    """Time the candidate against eager and torch.compile on every input set."""
    by_set: dict[str, Timing] = {}
    with ExitStack() as stack:
        sides = {
            "candidate": Side(candidate.ask_about_time),
            "eager": Side(_baseline(docket, stack, None)),
            "compile": Side(_baseline(docket, stack, "default")),
        }
        for source in docket.sources:
            by_set[source.name] = _one_set(docket, source, sides, certificate=certificate)
    timings = list(by_set.values())
    compiled = [t.speedup_compile for t in timings if t.speedup_compile is not None]
    summary = Timing(
        candidate_us=median(t.candidate_us for t in timings),
        eager_us=median(t.eager_us for t in timings),
        speedup_eager=geometric_mean([t.speedup_eager for t in timings]),
        compile_us=median(t.compile_us or 0.0 for t in timings),
        speedup_compile=geometric_mean(compiled),
    )
    remark = Disclosure(
        "clock_not_chained",
        "timed calls ran on rotated inputs under the judge's clock, but were not chained, and the "
        "outputs of the timed calls were not compared",
    )
    return Measured(summary, by_set, (remark,))


def _one_set(
    docket: Docket, source: InputSource, sides: dict[str, Side], *, certificate: bool
) -> Timing:
    sets = _rotated(docket, source)
    for side in sides.values():
        side.prepare(sets)
    times: dict[str, list[float]] = {name: [] for name in sides}
    deadline = time.monotonic() + (_CERTIFICATE_S if certificate else _TURN_S)
    order = list(sides)
    while True:
        for name in order:
            times[name].append(sides[name].per_call_us())
        order.reverse()
        eager, own = times["eager"], times["candidate"]
        if len(own) >= _FEWEST_BLOCKS:
            found = interval_of([e / c for e, c in zip(eager, own, strict=True)])
            if narrow_enough(found, _INTERVAL) or time.monotonic() > deadline:
                break
    compiled = interval_of([k / c for k, c in zip(times["compile"], own, strict=True)])
    return Timing(
        candidate_us=median(own),
        eager_us=median(eager),
        speedup_eager=found,
        compile_us=median(times["compile"]),
        speedup_compile=compiled,
        compile={"default": median(times["compile"])},
    )


def _rotated(docket: Docket, source: InputSource) -> list[Any]:
    first = draw(source, constant=docket.problem.constant_inputs)
    size = sum(t.numel() * t.element_size() for t in tree_leaves(first) if hasattr(t, "numel"))
    count = min(_MOST_ROTATED, max(2, _ROTATED_BYTES // max(size, 1)))
    rest = (draw(source, constant=docket.problem.constant_inputs) for _ in range(count - 1))
    return [first, *rest]


def _baseline(
    docket: Docket, stack: ExitStack, mode: str | None
) -> Callable[[dict[str, Any], Any], None]:
    """Start a process for the module itself; trusted, so confined to nothing but its scratch."""
    ours, theirs = pair()
    scratch = Path(stack.enter_context(TemporaryDirectory(prefix="kernelagent-baseline-")))
    child = docket.warm.fork(
        _BASELINE,
        {"problem": to_data(docket.settings.problem), "compile": mode},
        [theirs.socket.fileno()],
        Confinement.trusted(scratch),
    )
    theirs.close()
    stack.callback(_end, child, ours)

    def ask(header: dict[str, Any], body: Any) -> None:
        packed = parcel(body)
        ours.send({**header, "parcel": packed.header}, packed.payload, timeout=_ANSWER_S)
        ours.receive(timeout=_ANSWER_S)

    ask({"kind": "weights"}, dict(docket.oracle.given_weights))
    return ask


def _end(child: Child, channel: Channel) -> None:
    child.kill()
    channel.close()
