"""What the reference answers to one call, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelagent.tools.calls.result_form import Part
from kernelagent.tools.calls.whereabouts import Whereabouts
from kernelagent.tools.judge.problem.load import Arguments

INPUTS = ""
"""Stands for them among the names of what a call writes to."""


@dataclass(frozen=True)
class Expected:
    """What the reference answers to one call."""

    output: Any
    """As the user gave it (`e`)."""
    output64: Any
    """In float64 (`y64`)."""
    arguments: Arguments
    """The inputs after the call: changed only where the reference changes them."""
    state: Mapping[str, torch.Tensor]
    """Parameters and buffers after the call."""
    state64: Mapping[str, torch.Tensor]
    """In float64, where it is floating: the entries that the call changes."""
    in_float64: bool = True
    """False: an operation has no float64 path, `output64` is a float32 run."""
    whereabouts: Whereabouts = field(default_factory=Whereabouts)
    """Which objects lie where after it, and in whose memory."""
    form: tuple[Part, ...] = ()
    """What the result is besides its values."""
    left: Mapping[str, Any] = field(default_factory=dict)
    """What the call leaves in attributes, other buffers and globals, by `attributes`' names."""
    left64: Mapping[str, Any] = field(default_factory=dict)
    """The same in float64; empty where there is no such run."""
    arguments64: Arguments | None = None
    """The inputs after the call in float64, where it has changed them."""
    written: frozenset[str] = frozenset()
    """Parameters and buffers that the call writes to, whatever they hold afterwards; `""`: inputs."""
