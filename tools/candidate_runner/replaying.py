"""The time of a forward without the cost of launching it: a CUDA graph of it, replayed.

The candidate's own process measures it, so the number is shown next to the deciding one, never
instead of it. The capture never ran on a GPU so far; what is done around it is tried on the CPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

_STEADY = 3
_ROUNDS = 7
_ROUND_S = 0.01
_MOST_REPLAYS = 1 << 14


class Replays(Protocol):
    """A recorded forward that can be run again."""

    def replay(self) -> None: ...

    def seconds(self, replays: int) -> float:
        """How long the device takes for that many, one after the other."""
        ...


def replayed(forward: Callable[[], Any], device: str) -> tuple[float | None, str | None]:
    """Microseconds of one forward, or one line why it cannot be recorded."""
    try:
        recorded = Graph(forward) if device != "cpu" else Direct(forward)
    except RuntimeError as error:
        message = str(error).strip().splitlines() or [type(error).__name__]
        return None, f"the forward cannot be captured in a CUDA graph: {message[0][:200]}"
    return per_replay_us(recorded), None


def per_replay_us(recorded: Replays) -> float:
    """The median over rounds that are each long enough for the clock."""
    count = 1
    while count < _MOST_REPLAYS and recorded.seconds(count) < _ROUND_S:
        count *= 2
    return statistics.median(recorded.seconds(count) for _ in range(_ROUNDS)) / count * 1e6


class Graph:
    """A forward captured on a stream of its own, as torch's documentation asks; for `cuda` alone."""

    def __init__(self, forward: Callable[[], Any]) -> None:
        """Raises `RuntimeError` where the forward does what no graph can hold, such as waiting."""
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_STEADY):
                forward()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            # Kept: its memory belongs to the graph.
            self._output = forward()

    def replay(self) -> None:
        self._graph.replay()

    def seconds(self, replays: int) -> float:
        begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self.replay()
        begin.record()
        for _ in range(replays):
            self.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3


class Direct:
    """The same on a device without graphs: the forward itself, called again."""

    def __init__(self, forward: Callable[[], Any]) -> None:
        self._forward = forward
        for _ in range(_STEADY):
            forward()

    def replay(self) -> None:
        self._forward()

    def seconds(self, replays: int) -> float:
        began = time.perf_counter()
        for _ in range(replays):
            self.replay()
        return time.perf_counter() - began
