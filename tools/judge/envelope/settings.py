"""What a reference was when it was judged: the class of each part and the settings its code reads."""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Set
from types import CodeType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.tools.judge.envelope.reads import Reads
from kernelagent.tools.judge.problem.reference.guard_walk import (
    NOTHING_TOLD,
    Told,
    is_alike_everywhere,
    told,
)
from kernelagent.tools.judge.problem.reference.read_from_outside import is_torchs

_OF_EVERY_MODULE = frozenset({*vars(torch.nn.Module()), "_is_torch_compile"})
_ITS_FILE = "<its file>"
_NOT_THERE = "gone"
"""In the emitted module's words."""
_DIGESTED = re.compile(r"\.\.\. [0-9a-f]{16}$")
_DEFAULTS = ("__defaults__", "__kwdefaults__")
_CELL = "cell_contents"


def settings_of(module: torch.nn.Module, reads: Reads | None = None) -> dict[str, dict[str, str]]:
    """By path of the part: its class and each attribute that was read, as the emitted module tells it.

    `reads`: what calls have read; without it, what the code of the forwards names. What no forward reads, such as the
    number of a layer, may differ where the emitted file is used.
    """
    parts = dict(module.named_modules(remove_duplicate=False))
    result = {path: {"class": class_name(type(part))} for path, part in parts.items()}
    rows = [(row.place, text) for row, text in _compared(module, reads) if _is_in(row, parts)]
    # What was looked for and is not there would be read where another module has it.
    rows += [(place, _NOT_THERE) for place in sorted(() if reads is None else reads.missing)]
    rows += _in_classes(module, reads, parts)
    for place, text in rows:
        path = _part_of(place, parts)
        result[path][place.removeprefix(f"{path}.")] = text
    return result


def surroundings_of(
    module: torch.nn.Module, reads: Reads | None = None, made: Set[str] = frozenset()
) -> dict[str, str]:
    """What else its forwards read: tensors of no state, closures, globals, what classes hold.

    The class's own file stands as `<its file>`: it has another name where the module is used. `made`: what calls have
    made or changed outside of the module, which is another in a process that has not called it.
    """
    parts = dict(module.named_modules(remove_duplicate=False))
    every = _compared(module, reads)
    rows = [
        (r.what, text)
        for r, text in every
        if not (_is_in(r, parts) or _is_of_a_part(r) or r.what in made)
    ]
    file = _file_of(module)
    return {file.sub(_ITS_FILE, what): text for what, text in rows}


def _in_classes(
    module: torch.nn.Module, reads: Reads | None, parts: Mapping[str, torch.nn.Module]
) -> Iterator[tuple[str, str]]:
    """What classes of parts hold for their objects: an object may hold its own in its place."""
    texts = {(r.owner, r.name): text for r, text in _compared(module, reads) if _is_of_a_part(r)}
    for path, part in parts.items():
        for name in sorted({name for _, name in texts} - vars(part).keys()):
            read = reads is None or f"{path}.{name}" in reads.in_classes
            holder = next((kind for kind in type(part).__mro__ if name in vars(kind)), None)
            if read and (holder, name) in texts:
                yield f"{path}.{name}", texts[holder, name]


def _is_of_a_part(row: Told) -> bool:
    return isinstance(row.owner, type) and issubclass(row.owner, torch.nn.Module)


def _file_of(module: torch.nn.Module) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){re.escape(type(module).__module__)}(?!\w)")


def _is_in(row: Told, parts: Mapping[str, torch.nn.Module]) -> bool:
    """Whether it is an attribute of a part, or of settings that a part has."""
    of_a_part = bool(row.place) and row.place.startswith(f"{_part_of(row.place, parts)}.")
    return of_a_part and not isinstance(row.value, torch.Tensor)


def _part_of(place: str, parts: Mapping[str, torch.nn.Module]) -> str:
    """The innermost part on the way there."""
    path = place.rpartition(".")[0]
    while path and path not in parts:
        path = path.rpartition(".")[0]
    return path


def _compared(module: torch.nn.Module, reads: Reads | None) -> Iterator[tuple[Told, str]]:
    """What was read and can be told alike in every process, with its text."""
    rows = told(module)
    kinds = {k for row in rows if row.place for k in type(row.owner).__mro__}
    named = _named({type(part) for part in module.modules()}) if reads is None else set[str]()
    in_classes = {place.rpartition(".")[2] for place in (reads.in_classes if reads else ())}
    file = _file_of(module)
    for row in rows:
        if reads is None:
            read = not row.place or row.name in named
        elif row.place:
            read = row.place in reads.places
        else:
            of_a_class = isinstance(row.owner, type) and row.owner in kinds
            read = not of_a_class or row.name in in_classes
        changes = reads is not None and row.what in reads.changed
        if not read or changes or (text := _in_every_process(row)) is None:
            continue
        # A digest of what names the file is another where the file has another name.
        if not (_DIGESTED.search(text) and file.search(str(row.value))):
            yield row, file.sub(_ITS_FILE, text)


def _in_every_process(row: Told) -> str | None:
    """The text as far as it is the same in each; None for what is not, and for what is code of a file."""
    value, text = row.value, row.text
    if not is_alike_everywhere(value, text) or text in NOTHING_TOLD:
        return None
    if isinstance(value, torch.Tensor):
        return text
    # Names of files and the like; what decorators keep is code.
    if row.name.startswith("__") and row.name not in _DEFAULTS:
        return None
    if _is_of_the_machine(value):
        return None
    if row.place:
        return text
    return _of_surroundings(row)


def _of_surroundings(row: Told) -> str | None:
    value = row.value
    if isinstance(value, type) or (isinstance(value, dict) and _is_registry(value)):
        return None
    if row.name in _DEFAULTS:
        local = "<" in row.owner.__qualname__
        return row.text if local and any(one is not None for one in tree_leaves(value)) else None
    if not hasattr(value, "__qualname__") and not hasattr(value, "__get__"):
        return row.text
    if isinstance(row.owner, type) or getattr(value, "__name__", None) == row.name:
        return None
    if row.name == _CELL and " of " in row.what:
        return None
    # Of a function in Python the last word is a digest of its code, which is another in each Python.
    return f"{row.text.rpartition(' ')[0]} " if hasattr(value, "__code__") else row.text


def _is_registry(value: dict[Any, Any]) -> bool:
    """Functions by their names, to which other libraries add theirs."""
    return any(hasattr(one, "__qualname__") for one in value.values())


def tied_in(module: torch.nn.Module) -> list[list[str]]:
    """The names in the state that stand for one tensor, by tensor."""
    groups: dict[int, list[str]] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        if isinstance(value, torch.Tensor):
            groups.setdefault(id(value), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def holds_settings(module: torch.nn.Module) -> bool:
    """Whether a part holds an object with fields, such as a config, whether or not its code reads it."""
    return any(
        _has_settings(value)
        for part in module.modules()
        for name, value in vars(part).items()
        if name not in _OF_EVERY_MODULE
    )


def class_name(kind: type) -> str:
    """With its module where that is torch's: the user's file has another name where it is used."""
    name = kind.__qualname__
    return f"{kind.__module__}.{name}" if is_torchs(kind) else name


def _is_of_the_machine(value: Any) -> bool:
    """Where it is, which the guard asks of the tensors themselves."""
    return any(isinstance(one, torch.device) for one in tree_leaves(value))


def _has_settings(value: Any) -> bool:
    apart = (torch.Tensor, torch.nn.Module, dict, list, tuple)
    library = type(value).__module__.split(".")[0] in ("torch", "logging", "threading")
    return hasattr(value, "__dict__") and not (
        isinstance(value, apart) or library or hasattr(value, "__qualname__")
    )


def _named(kinds: Set[type]) -> set[str]:
    """The names in the code of the forwards and of what they call on the module itself.

    Not what that code itself sets, such as a count of calls: it is another after each of them.
    """
    names, stored, done = set[str](), set[str](), set[CodeType]()
    todo: list[tuple[type, Any]] = [(kind, getattr(kind, "forward", None)) for kind in kinds]
    for kind, member in todo:
        function: Callable[..., Any] = inspect.unwrap(getattr(member, "fget", None) or member)
        codes = [code] if (code := getattr(function, "__code__", None)) is not None else []
        for code in codes:
            if code in done:
                continue
            done.add(code)
            codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
            here = {*code.co_names, *(c for c in code.co_consts if isinstance(c, str))}
            names |= here
            stored |= {
                str(line.argval)
                for line in dis.get_instructions(code)
                if line.opname in ("STORE_ATTR", "DELETE_ATTR")
            }
            members = [getattr(kind, name, None) for name in code.co_names]
            todo += [(kind, m) for m in members if m is not None and not is_torchs(m)]
    return names - stored
