"""A candidate's file, imported: its `ModelNew` constructed, loaded with weights and called."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.domain.candidate import ENTRY_POINT
from kernelagent.tools.calls.loading import NOWHERE, Loading, Memory, put_in, state_of, unplaced
from kernelagent.tools.calls.parameter_rows import rows_of
from kernelagent.tools.calls.surroundings import (
    USUAL,
    Surroundings,
    as_asked,
    forward_in,
    suitable_others,
)
from kernelagent.tools.calls.training_step import FORWARD, TrainingStep, take
from kernelagent.tools.candidate_runner.kept.kept_elsewhere import words_of
from kernelagent.tools.candidate_runner.kept.kept_state import Walked, walk
from kernelagent.tools.candidate_runner.put_on import under
from kernelagent.tools.candidate_runner.shell import shell_from
from kernelagent.tools.candidate_runner.unfilled import as_emitted

NAME = "candidate"
"""What the candidate is imported as."""
_OUTPUT_TYPES = (torch.Tensor, torch.nn.Parameter)
_MARKS_OF_DYNAMO = {"_dynamo_weak_dynamic_indices", "_dynamo_propagated_dynamic_indices"}
"""Of torch 2.11, and of 2.13: which sizes of an output are not fixed."""
_FRAMES = 4
_PLAIN_VALUES = (bool, int, float, complex, str, torch.dtype, torch.device, type(None))
_COMPILING = frozenset(
    "CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct PTXASError".split()
)
_BEYOND_MEMORY = ("an illegal memory access was encountered", "misaligned address")
"""How a GPU reports it, at the next wait."""


@dataclass
class CandidateFailure(Exception):
    """The candidate did something that ends its evaluation; `code` is a rejection code."""

    code: str
    message: str
    detail: dict[str, Any] = field(default_factory=dict)

    def as_header(self) -> dict[str, Any]:
        return {
            "kind": "failed",
            "code": self.code,
            "message": self.message,
            "detail": self.detail,
        }


def candidate_file() -> Path:
    """Where the candidate's text lies, in its own scratch."""
    return Path(tempfile.gettempdir()) / f"{NAME}.py"


class LoadedCandidate:
    """The imported module and, once constructed, its `ModelNew`."""

    def __init__(
        self, module: ModuleType, kind: type[torch.nn.Module], words: frozenset[str]
    ) -> None:
        self._module = module
        self._words = words
        self._kind = kind
        self._instance: torch.nn.Module | None = None

    @classmethod
    def from_source(cls, source: str) -> LoadedCandidate:
        path = candidate_file()
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(NAME, path)
        if spec is None or spec.loader is None:
            raise CandidateFailure("unverifiable", "the candidate's file cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[NAME] = module
        try:
            spec.loader.exec_module(module)
        except SyntaxError as error:
            raise CandidateFailure(
                "syntax_error",
                f"line {error.lineno}: {error.msg}",
                {"line": error.lineno, "text": (error.text or "").rstrip()},
            ) from error
        except BaseException as error:  # a candidate raises anything
            raise failure_of(error, "importing the file", "import_error") from error
        kind = getattr(module, ENTRY_POINT, None)
        if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
            raise CandidateFailure(
                "missing_entry_point", f"the file defines no nn.Module called {ENTRY_POINT}"
            )
        return cls(module, kind, words_of(source))

    @property
    def envelope(self) -> dict[str, Any] | None:
        """What the candidate says it supports (`ENVELOPE`), None when it says nothing."""
        declared = getattr(self._module, "ENVELOPE", None)
        return declared if isinstance(declared, dict) and _is_plain(declared) else None

    def construct(
        self,
        how: str,
        value: Any,
        device: str,
        *,
        training: bool,
        onto: torch.nn.Module | None = None,
    ) -> list[dict[str, Any]]:
        """Build `ModelNew`; returns a row for each entry of its state.

        `onto`: the user's module, which an emitted file is put on.
        What is called from then on was built as the emitted module builds it; the rows are those of a usual one.
        """
        make = partial(self._instantiate, how, value)
        if onto is not None:
            make = partial(under, self._module, onto, value)
        once = device == "meta" or onto is not None
        try:
            instance, usual = (made := make(), made) if once else as_emitted(make)
            self._instance = instance.to(device).train(training)
            return rows_of(usual.to(device))
        except CandidateFailure:
            raise
        except BaseException as error:  # a candidate raises anything
            raise failure_of(error, f"constructing {ENTRY_POINT}", "init_error") from error

    def _instantiate(self, how: str, value: Any) -> torch.nn.Module:
        if how != "from_reference":
            args, kwargs = value
            return self._kind(*args, **kwargs)
        maker = getattr(self._kind, "from_reference", None)
        if maker is None:
            raise CandidateFailure(
                "missing_entry_point",
                f"{ENTRY_POINT} needs a classmethod from_reference(cls, shell): the module's "
                f"constructor arguments are not known",
            )
        built: torch.nn.Module = maker(shell_from(value))
        return built

    def kept(self) -> Walked:
        """What it keeps between calls, beyond what the judge compares with the reference."""
        return walk(self._module, self._instance, self._words)

    @property
    def instance(self) -> torch.nn.Module:
        """The constructed `ModelNew`."""
        return self._built()

    def load_weights(
        self, values: Mapping[str, torch.Tensor], how: Loading = "load", memory: Memory = NOWHERE
    ) -> None:
        try:
            put_in(self._built(), values, how, memory)
        except BaseException as error:  # a candidate raises anything
            raise failure_of(error, "loading the weights", "state_mismatch") from error

    @property
    def trains(self) -> bool:
        """Whether it was constructed for training."""
        return self._built().training

    def another(
        self, how: str, value: Any, device: str, onto: torch.nn.Module | None = None
    ) -> LoadedCandidate:
        """A second instance beside this one, with other weights."""
        other = LoadedCandidate(self._module, self._kind, self._words)
        other.construct(how, value, device, training=self.trains, onto=onto)
        values = {name: tensor.clone() for name, tensor in self.state().items()}
        suitable_others(values[name] for name, _ in self._built().named_parameters())
        other.load_weights(values, "load" if unplaced(self._built()) else "bound")
        return other

    def as_asked(self, asked: Surroundings) -> tuple[torch.nn.Module, str | None]:
        """The module or a copy of it; where there can be none the module itself, and why."""
        try:
            return as_asked(self._built(), asked), None
        except Exception as error:  # noqa: BLE001 - a module may refuse to be copied in any way
            return self._built(), f"{type(error).__name__}: {error}"[:200]

    def forward(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        asked: Surroundings = USUAL,
        module: torch.nn.Module | None = None,
    ) -> Any:
        """`module`: a copy that is called in the place of the module."""
        try:
            output = forward_in(module or self._built(), args, kwargs, asked)
        except CandidateFailure:
            raise
        except BaseException as error:  # a candidate raises anything
            raise failure_of(error, "the forward") from error
        _check_types(output)
        return output

    def training_step(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], step: TrainingStep
    ) -> dict[str, Any]:
        """The forward and its backwards; what they leave, by `training_step`'s names."""
        try:
            answer = take(self._built(), (args, kwargs), step)
        except CandidateFailure:
            raise
        except BaseException as error:  # a candidate raises anything
            raise failure_of(error, "the forward or its backward") from error
        _check_types(answer[FORWARD])
        return answer

    def drop_contents(self) -> None:
        """From now on parameters and buffers have shapes and hold nothing."""
        try:
            self._built().to("meta")
        except BaseException as error:  # a candidate raises anything
            raise failure_of(error, "moving the module to tensors without contents") from error

    def call_counted(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], step: TrainingStep | None
    ) -> None:
        if step is None:
            self.forward(args, kwargs)
        else:
            self.training_step(args, kwargs, step)

    def forward_without_contents(self, *args: Any, **kwargs: Any) -> None:
        try:
            with torch.no_grad():
                self._built()(*args, **kwargs)
        except BaseException as error:  # a candidate raises anything
            raise failure_of(error, "the forward on tensors without contents") from error

    def step_without_contents(self, arguments: Any, step: TrainingStep) -> None:
        try:
            take(self._built(), arguments, step)
        except BaseException as error:  # a candidate raises anything
            doing = "forward and backward on tensors without contents"
            raise failure_of(error, doing) from error

    def state(self, how: Loading = "load") -> dict[str, torch.Tensor]:
        return state_of(self._built(), how)

    def attributes(self, names: Iterable[str]) -> dict[str, Any]:
        """Of these names of plain attributes, with their module's before them, those that it has."""
        result: dict[str, Any] = {}
        parts = dict(self._built().named_modules(remove_duplicate=False))
        for name in names:
            prefix, _, key = name.rpartition(".")
            # Without running a property or a `__getattr__` of the candidate's.
            own = vars(parts[prefix]) if prefix in parts else {}
            held = own if key in own else own.get("_buffers", {})
            if key in held and _is_followed(held[key]):
                result[name] = held[key]
        return result

    def _built(self) -> torch.nn.Module:
        if self._instance is None:
            raise CandidateFailure("unverifiable", "the candidate is called before it is built")
        return self._instance


def _is_followed(value: Any) -> bool:
    leaves = tree_leaves(value)
    return all(type(v) in _OUTPUT_TYPES or isinstance(v, _PLAIN_VALUES) for v in leaves)


def _check_types(output: Any) -> None:
    """Only plain tensors: a subclass or an instance with its own methods could compute later."""
    if isinstance(output, torch.Tensor):
        if type(output) not in _OUTPUT_TYPES or not _without_behaviour(vars(output)):
            raise CandidateFailure(
                "tampering",
                f"the output is a {type(output).__name__} with behaviour of its own; return plain "
                f"torch.Tensor objects",
            )
    elif isinstance(output, dict):
        for item in output.values():
            _check_types(item)
    elif isinstance(output, list | tuple):
        for item in output:
            _check_types(item)


def _without_behaviour(attributes: dict[str, Any]) -> bool:
    """Nothing is there, or what `torch.compile` writes on the outputs of a graph for many sizes."""
    return attributes.keys() <= _MARKS_OF_DYNAMO and all(
        type(dims) is set and all(type(dim) is int for dim in dims) for dims in attributes.values()
    )


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def failure_of(error: BaseException, doing: str, code: str = "runtime_error") -> CandidateFailure:
    """What went wrong, in the candidate's own lines."""
    refused = getattr(error, "code", None)
    kind = type(error).__name__
    text = str(error).strip()
    if isinstance(refused, str) and isinstance(getattr(error, "detail", None), dict):
        return CandidateFailure(refused, text, dict(error.detail))  # type: ignore[attr-defined]
    if kind in _COMPILING:
        code = "compile_error"
    elif any(words in text for words in _BEYOND_MEMORY):
        code = "out_of_bounds"
    elif kind == "OutOfResources":
        code = "out_of_resources"
    elif isinstance(error, MemoryError) or kind == "OutOfMemoryError":
        code = "out_of_memory"
    detail: dict[str, Any] = {"error": kind, "where": doing, "traceback": _own_frames(error)}
    line = _own_line(error)
    if line is not None:
        detail["line"] = line
    place = f" at line {line}" if line is not None else ""
    shown = text if len(text) <= 2000 else text[:1400] + "\n…\n" + text[-500:]
    return CandidateFailure(code, f"{doing} raised {kind}{place}: {shown}", detail)


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    own = str(candidate_file())
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]


def _own_line(error: BaseException) -> int | None:
    frames = _frames(error)
    return frames[-1].lineno if frames else None


def _own_frames(error: BaseException) -> list[str]:
    return [
        f"line {frame.lineno}, in {frame.name}: {frame.line}" for frame in _frames(error)[-_FRAMES:]
    ]
