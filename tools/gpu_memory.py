"""How a GPU's memory is divided between a model and the module that is judged beside it.

An estimate, said as one: what the judge keeps is counted from the problem's tensors, what kernels
and the libraries take besides is a fixed sum for each process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelagent.domain.problem import ProblemFacts, TensorFacts

GIB = 1 << 30
_PROCESSES = 3
"""Judge, candidate and baseline each have a context, an allocator and loaded kernels."""
_CONTEXT_BYTES = GIB * 6 // 10
_ROTATED_BYTES = GIB // 4
"""Of inputs in each timed process, so that no cache holds them all."""
_WEIGHT_COPIES = 4
"""The user's module, its weights to start again from, the candidate and the baseline."""
_DATA_COPIES = 9
"""Inputs and outputs of candidate, baseline and reference, and two more sets to rotate in each."""
_FLOAT64 = 8
_FLOAT64_COPIES = 2
"""Of weights, inputs, outputs, and as much again for what lies between: the reference in float64."""
_CACHE_BYTES = GIB
"""The least a server needs beside its weights: one conversation's cache and activations."""
_RESERVE = 0.03
"""Of the GPU, for what neither side counts."""
_USUAL_SHARE = 0.9
"""vLLM's own default; more is never computed."""
_WEIGHT_FILES = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


@dataclass(frozen=True)
class MemorySplit:
    """Bytes of one GPU: all of it, the module's part, the model's weights (None: not known here)."""

    total: int
    module: int
    weights: int | None

    @property
    def share(self) -> float:
        """What is left for the model, as vLLM's `--gpu-memory-utilization`; 0 when nothing is."""
        left = 1.0 - _RESERVE - self.module / self.total
        return max(0.0, min(_USUAL_SHARE, int(left * 1000) / 1000))

    def shown(self, share: float) -> str:
        """The split for a person, with the share in force."""
        weights = "" if self.weights is None else f" (weights {_gib(self.weights)})"
        return (
            f"GPU memory {_gib(self.total)}: about {_gib(self.module)} for module and judge, "
            f"{_gib(share * self.total)} for the model{weights}, "
            f"--gpu-memory-utilization {share:.3f}"
        )

    def warning(self, share: float) -> str | None:
        """Why the two do not fit beside each other, and what to do; None when they do."""
        if share * self.total + self.module > self.total:
            return (
                f"the module needs about {_gib(self.module)}, and {share:.0%} of {_gib(self.total)} "
                f"is the model's; {self._fix()}"
            )
        if share * self.total < (self.weights or 0) + _CACHE_BYTES:
            needs = _gib((self.weights or 0) + _CACHE_BYTES)
            return (
                f"the model needs at least {needs}, and {_gib(share * self.total)} are left beside "
                f"the module's {_gib(self.module)}; use a smaller or quantised checkpoint, or "
                f"serve it on another GPU: start vLLM there and give --model hosted_vllm/NAME "
                f"--api-base URL"
            )
        return None

    def _fix(self) -> str:
        if self.share * self.total >= (self.weights or 0) + _CACHE_BYTES:
            return f"set gpu_memory_utilization = {self.share:.3f} in the table [vllm]"
        return (
            "judge it with smaller inputs, or serve the model on another GPU: start vLLM there "
            "and give --model hosted_vllm/NAME --api-base URL"
        )


def module_bytes(facts: ProblemFacts) -> int:
    """What judge, candidate and baseline take together at most, in bytes; an estimate."""
    sets = [_bytes(item.executed or item.tensors) for item in facts.input_sets]
    numbers = [_numbers(item.executed or item.tensors) for item in facts.input_sets]
    data = max(sets, default=0) + _bytes(facts.outputs)
    wide = max(numbers, default=0) + _numbers(facts.outputs) + _numbers(facts.state)
    return (
        _PROCESSES * (_CONTEXT_BYTES + _ROTATED_BYTES)
        + _WEIGHT_COPIES * _bytes(facts.state)
        + _DATA_COPIES * data
        + _FLOAT64_COPIES * _FLOAT64 * wide
    )


def checkpoint_bytes(checkpoint: str) -> int | None:
    """The size of its weight files; None when it is a name and no folder here."""
    folder = Path(checkpoint)
    if not folder.is_dir():
        return None
    for pattern in _WEIGHT_FILES:
        if result := sum(file.stat().st_size for file in folder.glob(pattern)):
            return result
    return None


def _bytes(tensors: Iterable[TensorFacts]) -> int:
    return sum(_count(item) * _width(item.dtype) for item in tensors)


def _numbers(tensors: Iterable[TensorFacts]) -> int:
    return sum(_count(item) for item in tensors)


def _count(tensor: TensorFacts) -> int:
    count = 1
    for size in tensor.shape:
        count *= size
    return count


def _width(dtype: str) -> int:
    """Bytes of one number, from the bits its name ends with; a boolean takes one."""
    digits = "".join(c if c.isdigit() else " " for c in dtype.partition("_")[0])
    bits = digits.split() or ["8"]
    return max(1, int(bits[-1]) // 8)


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"
