"""The user's module in the process that runs an emitted file, which puts its kernels on it as a user's program does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from kernelagent.domain.errors import KernelAgentError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import from_data
from kernelagent.tools.judge.problem.load import LoadedProblem, load_problem

_ALIGNED = 16


class Original:
    """The problem, read before anything of the candidate runs; made anew for each drop-in."""

    def __init__(self, problem: Mapping[str, Any], path: Sequence[str]) -> None:
        """`path`: where the judge looks for modules."""
        sys.path.extend(place for place in path if place not in sys.path)
        self._problem: LoadedProblem | None = None
        self._why = ""
        try:
            self._problem = load_problem(from_data(problem, ProblemSpec))
        except KernelAgentError as error:
            # What the user's code reads may be out of the sandbox's reach.
            self._why = str(error)

    def made(self, value: Mapping[str, Any], device: str, *, training: bool) -> torch.nn.Module:
        """The user's module alone: what their code and its libraries import or set for it is not the candidate's doing.

        `value`: the constructor's `arguments` (None: as the problem has them), and the `unsaved` buffers that the
        judge's own has. Raises `NotReadHere` where it cannot be made.
        """
        if self._problem is None:
            raise NotReadHere(f"the module cannot be read where candidates run: {self._why[:300]}")
        build: Callable[[], torch.nn.Module] = self._problem.build
        arguments = value["arguments"]
        if arguments is not None and self._problem.construct is not None:
            construct = self._problem.construct
            build = lambda: construct(arguments)  # noqa: E731 - one of two ways to build it
        try:
            module = build().to(device).train(training)
        except Exception as error:  # the user's constructor raises anything
            # The user's code may raise anything, and what it reads may be out of the sandbox's reach.
            why = f"{type(error).__name__}: {error}"
            message = f"the module cannot be made where candidates run: {why[:300]}"
            raise NotReadHere(message) from error
        if device == "cpu":
            _place_as_on_a_gpu(module)
        buffers = dict(module.named_buffers())
        with torch.no_grad():
            for name, tensor in value["unsaved"].items():
                if name in buffers and buffers[name].shape == tensor.shape:
                    buffers[name].copy_(tensor)
        return module


def _place_as_on_a_gpu(module: torch.nn.Module) -> None:
    """Whatever goes to a GPU begins at an address of its own there; in a file that was read it lies behind what is before it."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.layout == torch.strided and tensor.data_ptr() % _ALIGNED:
            tensor.data = tensor.data.clone()


def under(file: ModuleType, module: torch.nn.Module, value: Mapping[str, Any]) -> torch.nn.Module:
    """The user's module with the file's kernels put on it.

    `value`: the constructor's `arguments`, and what the file is to take for verified where other sizes are `executed`.
    """
    known = vars(file)
    known["ENVELOPE_VERIFIED"] |= {**value["executed"], "device_types": ["cpu", "cuda"]}
    if value["arguments"] is not None:
        args, kwargs = value["arguments"]
        known["_construct"] = lambda _: known["ModelNew"](*args, **kwargs)
    result: torch.nn.Module = known["optimized"](module)
    return result


class NotReadHere(Exception):
    """Nothing is known of the emitted file; the candidate is not to blame."""

    code = "unverifiable"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.detail: dict[str, Any] = {}


def answered_by_original(module: torch.nn.Module | None) -> list[str]:
    """Why calls of a drop-in were answered by the module under it; nothing for any other module."""
    guard = getattr(module, "_dropin", None)
    warned = getattr(guard, "_warned", ())
    return sorted(map(str, warned)) if isinstance(warned, set) else []
