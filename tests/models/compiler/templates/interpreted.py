"""Runs what the policy wrote, with its kernels interpreted here: no judge, no process, bounds checked."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from kernelagent.tools.virtual.executor.launch import Launch
from kernelagent.tools.virtual.races.bounds import BoundsChecker
from tests.tools.virtual.arguments import tensor_argument


def answer(
    interpreter: BatchedInterpreter, source: str, folder: Path, module: nn.Module, *args: Any
) -> Any:
    """What the written forward answers with the module's weights."""
    with torch.no_grad():
        return loaded(interpreter, source, folder, module)(*args)


def loaded(
    interpreter: BatchedInterpreter, source: str, folder: Path, module: nn.Module
) -> nn.Module:
    """The written module with the original's weights."""
    written = _imported(source, folder)
    for name, value in list(vars(written).items()):
        # Those that a kernel calls are no launches.
        if isinstance(value, JITFunction) and f"{name}[" in source:
            setattr(written, name, Launched(interpreter, value))
    new: nn.Module = written.ModelNew.from_reference(module)
    new.load_state_dict(module.state_dict())
    return new.train(module.training)


def _imported(source: str, folder: Path) -> ModuleType:
    path = folder / f"written_{abs(hash(source))}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Launched:
    """A kernel whose launches are interpreted."""

    def __init__(self, interpreter: BatchedInterpreter, kernel: JITFunction[Any]) -> None:
        self._interpreter = interpreter
        self._kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, num_warps: int = 4, num_stages: int = 1, **blocks: int) -> None:
            names = self._kernel.arg_names
            named = {**dict(zip(names, args, strict=False)), **blocks}
            tensors = {n: v for n, v in named.items() if isinstance(v, torch.Tensor)}
            described = Launch(
                index=0,
                kernel=self._kernel.__name__,
                line=1,
                grid=(*grid, 1, 1)[:3],
                tensors=tuple(tensor_argument(name, value) for name, value in tensors.items()),
                scalars={},
                constexprs=blocks,
            )
            self._interpreter.run(self._kernel, named, described, observers=[BoundsChecker()])

        return launch
