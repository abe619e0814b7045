"""From the events of one traced forward to its kernels: time, launches, share, and whose they are.

Pure functions over what `observed.Event` holds. A device's kernel is the candidate's own when the
call that launched it (the event with the same correlation) stands inside the annotation of a launch
in the record the audit keeps; its name says nothing. On the CPU as a device, operations are kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelagent.domain.evaluation import Disclosure, KernelFacts
from kernelagent.tools.judge.timing.observed import Event, LaunchRow, Observed
from kernelagent.tools.virtual.compiled.sass import MachineFacts

_ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_LAUNCHING = frozenset({"cuda_driver", "cuda_runtime"})
_ANNOTATION = "user_annotation"
_OPERATION = "cpu_op"


@dataclass(frozen=True)
class TracedKernel:
    """All launches of one kernel in one forward."""

    name: str
    us: float
    launches: int
    share: float
    """Of the device's time in the forward, 0 to 1."""
    own: LaunchRow | None
    """The candidate's first launch of it; None for what torch or a library runs."""


@dataclass(frozen=True)
class TracedForward:
    """One steady forward on the device, most expensive kernel first."""

    kernels: tuple[TracedKernel, ...]
    device_us: float
    unseen: int
    """Launches of the record that the trace does not show."""

    @property
    def coverage(self) -> float:
        """The candidate's own device time over all device time."""
        return min(1.0, sum(kernel.share for kernel in self.kernels if kernel.own is not None))

    @property
    def library(self) -> tuple[TracedKernel, ...]:
        """What still runs in torch."""
        return tuple(kernel for kernel in self.kernels if kernel.own is None)


def traced_forward(
    events: Sequence[Event],
    launches: Sequence[LaunchRow],
    prefix: str,
    known: Sequence[LaunchRow] = (),
) -> TracedForward:
    """Add up a trace; `prefix`: what the annotations of own launches begin with.

    What a CUDA graph launches stands in no annotation: it is the candidate's own where the process
    has launched a kernel of that name itself (`known`).
    """
    recorded = {row.compiled: row for row in known}
    numbers = _numbers(events, prefix, len(launches))
    starts = {e.correlation: e for e in events if e.cat in _LAUNCHING and e.correlation is not None}
    groups: dict[tuple[str, str | None], list[tuple[float, LaunchRow | None]]] = {}
    shown: set[int] = set()
    for event in _on_device(events):
        begun = event if event.cat == _OPERATION else starts.get(event.correlation or -1)
        number = None if begun is None else _enclosing(begun, numbers)
        own = None if number is None else launches[number]
        if number is not None:
            shown.add(number)
        elif begun is not None and "GraphLaunch" in begun.name:
            own = recorded.get(event.name)
        key = (event.name, None if own is None else own.hash)
        groups.setdefault(key, []).append((event.dur, own))
    total = sum(us for rows in groups.values() for us, _ in rows)
    kernels = [_kernel(name, rows, total) for (name, _), rows in groups.items()]
    ordered = tuple(sorted(kernels, key=lambda kernel: (-kernel.us, kernel.name)))
    return TracedForward(ordered, total, len(launches) - len(shown))


def own_kernels(observed: Observed, traced: TracedForward | None) -> tuple[KernelFacts, ...]:
    """One row per kernel of the candidate: launches, the compiler's facts, and its device time if traced."""
    by_name: dict[str, list[LaunchRow]] = {}
    # Nothing launched in a steady forward: a CUDA graph of what was launched before.
    for row in observed.launches or observed.known:
        by_name.setdefault(row.kernel, []).append(row)
    return tuple(_facts(rows, observed.facts, traced) for rows in by_name.values())


def library_share(traced: TracedForward) -> tuple[Disclosure, ...]:
    """What torch still runs and what share of the device time that takes; empty where it runs nothing."""
    rest = traced.library
    if not rest:
        return ()
    names = ", ".join(dict.fromkeys(_short(kernel.name) for kernel in rest[:_NAMED]))
    more = f" and {len(rest) - _NAMED} more" if len(rest) > _NAMED else ""
    return (
        Disclosure(
            "library_share",
            f"torch runs {names}{more}: {sum(k.share for k in rest):.0%} of the device time of a "
            f"traced forward",
        ),
    )


_NAMED = 6


def _on_device(events: Iterable[Event]) -> list[Event]:
    """The device's kernels; where there is no device, the operations that stand in no other one."""
    result = [event for event in events if event.cat in _ON_DEVICE]
    if result:
        return result
    outermost: list[Event] = []
    ends: dict[tuple[object, object], float] = {}
    operations = (event for event in events if event.cat == _OPERATION)
    for event in sorted(operations, key=lambda e: (e.ts, -e.dur)):
        thread = (event.pid, event.tid)
        if event.ts >= ends.get(thread, float("-inf")):
            outermost.append(event)
            ends[thread] = event.ts + event.dur
    return outermost


def _numbers(events: Iterable[Event], prefix: str, most: int) -> list[tuple[Event, int]]:
    result = []
    for event in events:
        number = event.name.removeprefix(prefix)
        named = event.name.startswith(prefix) and number.isdecimal()
        if event.cat == _ANNOTATION and named and int(number) < most:
            result.append((event, int(number)))
    return result


def _enclosing(begun: Event, numbers: Iterable[tuple[Event, int]]) -> int | None:
    around = [
        (event, number)
        for event, number in numbers
        if event.ts <= begun.ts <= event.ts + event.dur
        and (event.pid, event.tid) == (begun.pid, begun.tid)
    ]
    return min(around, key=lambda item: item[0].dur)[1] if around else None


def _kernel(
    name: str, rows: Sequence[tuple[float, LaunchRow | None]], total: float
) -> TracedKernel:
    us = sum(time for time, _ in rows)
    return TracedKernel(
        name=name,
        us=us,
        launches=len(rows),
        share=us / total if total else 0.0,
        own=rows[0][1],
    )


def _facts(
    rows: Sequence[LaunchRow], facts: Mapping[str, MachineFacts], traced: TracedForward | None
) -> KernelFacts:
    hashes = {row.hash for row in rows}
    kernels = traced.kernels if traced is not None else ()
    mine = [k for k in kernels if k.own is not None and k.own.hash in hashes]
    # Of several specialisations the dearest gives the facts.
    dearest = mine[0].own if mine and mine[0].own is not None else rows[0]
    machine = facts.get(dearest.hash)
    tier = "+".join((["compiler"] if machine is not None else []) + (["cupti"] if mine else []))
    common = KernelFacts(
        name=dearest.kernel,
        launches=len(rows),
        grid=dearest.grid,
        line=dearest.line or None,
        share_of_device_time=round(sum(k.share for k in mine), 4) if mine else None,
        device_us=round(sum(k.us for k in mine), 3) if mine else None,
        num_warps=dearest.options.get("num_warps"),
        num_stages=dearest.options.get("num_stages"),
        shared_bytes=dearest.metadata.get("shared"),
        tier=tier or "launches",
    )
    return common if machine is None else with_machine(common, machine)


def with_machine(kernel: KernelFacts, machine: MachineFacts) -> KernelFacts:
    """The row with what its machine code says."""
    return replace(
        kernel,
        registers=machine.registers,
        spills=machine.spills,
        shared_bytes=machine.shared_bytes,
        occupancy=machine.occupancy,
        occupancy_limiter=machine.occupancy_limiter,
        tensor_core=machine.tensor_core,
        load_widths={str(width): count for width, count in machine.load_widths.items()},
        barriers=machine.barriers,
        num_ctas=machine.num_ctas,
        spill_lines=machine.spill_lines,
    )


def _short(name: str) -> str:
    """A kernel's name without its template arguments."""
    return name.removeprefix("void ").partition("<")[0].partition("(")[0][:60]
