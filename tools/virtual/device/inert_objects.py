"""What `torch.cuda` makes objects of, where there is no GPU: streams, events, contexts and generators that do next to nothing."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, Self

import torch

ELSEWHERE = ("cuda", "hip", "xpu")
"""Kinds of devices that a program names and that are not there."""


def on_cpu(device: Any) -> Any:
    """The device that is really there for one that was named; raises what torch does for a second GPU."""
    require_first(device)
    if isinstance(device, str) and device.split(":")[0] in ELSEWHERE:
        return "cpu"
    if isinstance(device, torch.device) and device.type in ELSEWHERE:
        return torch.device("cpu")
    if isinstance(device, int) and not isinstance(device, bool):
        return "cpu"
    return device


def require_first(device: Any) -> None:
    """There is one GPU: a number other than its is refused, in torch's words."""
    if isinstance(device, torch.device):
        number = device.index if device.type in ELSEWHERE else None
    elif isinstance(device, str):
        kind, _, reported = device.partition(":")
        number = int(reported) if kind in ELSEWHERE and reported.isdigit() else None
    else:
        number = device if type(device) is int else None
    if number is not None and number > 0:
        raise RuntimeError(
            f"CUDA error: invalid device ordinal (cuda:{number}, and there is one GPU)"
        )


class Inert:
    """A stub for streams, contexts and the like: every method can be called and does nothing."""

    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        """Takes whatever the real one takes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        """Lets errors through."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: 0


class Device(Inert):
    def __init__(self, device: Any = None) -> None:
        require_first(device)


class Stream(Inert):
    """Equal to itself, as a stream of a GPU is however often it is asked for."""

    def __init__(self, *_: Any, number: int | None = None, **__: Any) -> None:
        self.cuda_stream = self.stream_id = next(_STREAMS) if number is None else number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.stream_id == self.stream_id

    def __hash__(self) -> int:
        return hash((Stream, self.stream_id))


_STREAMS = itertools.count(1)
"""Numbers of streams that a program makes; the usual one is 0."""


class Generator(torch.Generator):
    """A generator for any device, on the CPU; still a class, because annotations name it."""

    def __new__(cls, device: Any = "cpu") -> Self:
        return super().__new__(cls, device=on_cpu(device))  # type: ignore[call-arg]


class Event(Inert):
    def __init__(self, *_: Any, **__: Any) -> None:
        self._at = 0.0

    def record(self, *_: Any) -> None:
        self._at = time.perf_counter()

    def elapsed_time(self, other: Event) -> float:
        return (other._at - self._at) * 1e3
