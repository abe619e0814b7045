"""Small real machinery for the tests: one interpreter, and runner and executor in two processes."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelagent.tools.virtual.executor.launch import Launch
from kernelagent.tools.virtual.interpreter.interpreter import Interpreter
from tests.tools.virtual.arguments import tensor_argument


@pytest.fixture(scope="session")
def interpreter() -> Interpreter:
    return Interpreter()


@pytest.fixture
def interpret(interpreter: Interpreter) -> Callable[..., int]:
    """`interpret(kernel, grid, *arguments, observers=(), programs=None)`, without compiling."""

    def run(
        kernel: Any,
        grid: tuple[int, ...],
        *arguments: Any,
        observers: Any = (),
        programs: Any = None,
    ) -> int:
        named = dict(zip(kernel.arg_names, arguments, strict=True))
        launch = Launch(
            index=0,
            kernel=kernel.fn.__name__,
            line=1,
            grid=(*grid, 1, 1)[:3],
            tensors=tuple(
                tensor_argument(name, value)
                for name, value in named.items()
                if isinstance(value, torch.Tensor)
            ),
            scalars={},
            constexprs={},
        )
        return interpreter.run(kernel, named, launch, observers=observers, programs=programs)

    return run


@dataclass(frozen=True)
class Outcome:
    """What a body run beside a candidate showed, and how it ended."""

    shown: list[Any]
    errors: str

    @property
    def last_error(self) -> str:
        return self.errors.strip().splitlines()[-1] if self.errors.strip() else ""


@pytest.fixture(scope="module")
def in_two_processes(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    """`(source, body, seconds=60.0)`: `body` runs in a runner's process beside a real executor."""
    place = Path(__file__).with_name("virtual_process.py")
    spec = importlib.util.spec_from_file_location("virtual_process", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(source: str, body: str, seconds: float = 60.0) -> Outcome:
        ended = module.run(tmp_path_factory.mktemp("candidate"), source, body, seconds)
        rows = [line for line in ended.stdout.splitlines() if line.startswith("RESULT ")]
        return Outcome([json.loads(row.removeprefix("RESULT ")) for row in rows], ended.stderr)

    return run
