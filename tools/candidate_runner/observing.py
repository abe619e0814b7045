"""What the runner's own process sees of the device: launches, traces, graphs, machine code.

Written for `cuda` and tried on the CPU as the device; the parts a GPU alone has (its kernels in the
trace, the capture of a graph) never ran so far.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from kernelagent.domain.serialization import to_data
from kernelagent.tools.candidate_runner.launches import Launches
from kernelagent.tools.candidate_runner.replaying import replayed
from kernelagent.tools.virtual.compiled.sass import facts_of_cubin
from kernelagent.tools.virtual.cost.data_sheets import row_near
from kernelagent.tools.wire import Frame

_STEADY = 3
"""Forwards before the one that is traced: whatever is tuned or cached is so by then."""
_SHOWN = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "cuda_driver", "cuda_runtime"})
_ON_CPU = frozenset({"cpu_op"})


def observed(
    frame: Frame, forward: Callable[[], Any] | None, launches: Launches, device: str
) -> dict[str, Any]:
    """The answer to a `suppress`, `facts`, `trace` or `graph` request, as plain data."""
    if frame.kind == "suppress":
        launches.suppressed = True
        return {}
    if frame.kind == "facts":
        return {"facts": machine_facts(launches.kernels, str(frame.header["target"]))}
    if forward is None:
        raise ValueError(f"{frame.kind} needs the arguments of a forward")
    if frame.kind == "graph":
        us, why_not = replayed(forward, device)
        return {"us": us, "why_not": why_not}
    return traced(forward, launches, device, str(frame.header["prefix"]))


def machine_facts(kernels: Mapping[str, Any], target: str) -> dict[str, Any]:
    """What the machine code of each compiled kernel says, by content hash."""
    result = {}
    row = row_near(target)
    for key, compiled in kernels.items():
        metadata = {
            name: getattr(compiled.metadata, name) for name in ("num_warps", "shared", "num_ctas")
        }
        result[key] = to_data(
            facts_of_cubin(compiled.asm["cubin"], metadata, row.target, compiled.asm["ptx"])
        )
    return result


def traced(
    forward: Callable[[], Any], launches: Launches, device: str, prefix: str
) -> dict[str, Any]:
    """One steady forward under torch.profiler: its events, its launches, or why there is no trace."""
    from torch.profiler import ProfilerActivity, profile, record_function

    on_gpu = device != "cpu"
    for _ in range(_STEADY):
        forward()
    _settle(device)
    launches.take()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    try:
        with profile(activities=activities) as trace, launches.annotated(record_function, prefix):
            forward()
            _settle(device)
        rows = launches.take()[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            trace.export_chrome_trace(str(path))
            written = json.loads(path.read_text(encoding="utf-8"))
    except (RuntimeError, OSError) as error:
        rows = launches.take()[0]
        return _told(launches, [], rows, _first_line(error))
    shown = _SHOWN if on_gpu else _ON_CPU
    events = plain_events(written, shown, prefix)
    return _told(launches, events, rows, None)


def _told(launches: Launches, events: Any, rows: Any, why_not: str | None) -> dict[str, Any]:
    known = list(launches.known.values())
    answer = {"events": events, "launches": rows, "known": known, "why_not": why_not}
    return answer | {"failures": launches.failures}


def plain_events(written: Mapping[str, Any], shown: frozenset[str], prefix: str) -> list[Any]:
    """The complete events of a Kineto trace that have one of these categories, or are annotations."""
    result = []
    for event in written.get("traceEvents", ()):
        category, name = str(event.get("cat", "")), str(event.get("name", ""))
        annotation = category == "user_annotation" and name.startswith(prefix)
        if event.get("ph") != "X" or not (annotation or category in shown):
            continue
        row = {"cat": category, "name": name[:300], "ts": event["ts"], "dur": event.get("dur", 0)}
        row |= {"pid": event.get("pid", 0), "tid": event.get("tid", 0)}
        correlation = (event.get("args") or {}).get("correlation")
        result.append(row | ({} if correlation is None else {"correlation": int(correlation)}))
    return result


def _settle(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def _first_line(error: BaseException) -> str:
    message = str(error).strip().splitlines() or [type(error).__name__]
    return message[0][:300]
