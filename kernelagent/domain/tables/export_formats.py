"""What `kernelagent export` writes: a row each, from which the flag, its help, its errors and the reference come."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kernelagent.domain.configuration.options import listed
from kernelagent.domain.errors import UsageError


@dataclass(frozen=True)
class ExportFormat:
    """One format."""

    name: str
    of: Literal["turns", "module"]
    """Whether runs are written as training data, or a run's module as files."""
    writes: str
    """What it writes, and what reads or checks it: the words of the help."""
    maker: str
    """`package.module:function`, imported when the format is asked for.

    Of turns: `(Export) -> rows`. Of a module: `(EmittedFile, Path) -> str`, which writes the path,
    raises `UsageError` and returns a line for the user.
    """

    def made_by(self) -> Callable[..., Any]:
        """The function that `maker` names."""
        module, _, function = self.maker.partition(":")
        maker: Callable[..., Any] = getattr(importlib.import_module(module), function)
        return maker


EXPORT_FORMATS = (
    ExportFormat(
        "jsonl",
        "turns",
        "a trajectory a line, masked turns too (schema trajectory.json)",
        "kernelagent.training.export:jsonl_rows",
    ),
    ExportFormat(
        "trl",
        "turns",
        "a learnt turn a line, as TRL's conversations",
        "kernelagent.training.export:trl_rows",
    ),
    ExportFormat(
        "verl",
        "turns",
        "a learnt turn a line, as verl's data sets",
        "kernelagent.training.export:verl_rows",
    ),
    ExportFormat(
        "hf-kernels",
        "module",
        "a run's module, or an emitted file, as a folder for Hugging Face's kernels; import judges it",
        "kernelagent.dropin.hf_kernels:export",
    ),
)
NAMES = tuple(item.name for item in EXPORT_FORMATS)


def format_called(name: str) -> ExportFormat:
    """The format of that name; raises `UsageError` for an unknown one."""
    for item in EXPORT_FORMATS:
        if item.name == name:
            return item
    raise UsageError(f"--format {name}: use {listed(NAMES)}")


def formats_help() -> str:
    """The formats with what each writes, for the help of `--format`."""
    return "; ".join(f"{item.name}: {item.writes}" for item in EXPORT_FORMATS) + "."
