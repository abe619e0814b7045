"""`ModelNew` as the original is built: the same parameters of its constructor and forward, the same state."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import torch

from kernelagent.models.compiler.kernels.naming import is_attribute

Shapes = Mapping[str, tuple[str, ...]]
"""By path, the text of each dimension of a parameter or a buffer."""
NO_SHAPES: Shapes = MappingProxyType({})
ORIGINAL = "shell"
"""What the constructor calls the original, where `ModelNew` is made of it."""


def signature(function: Any) -> list[str]:
    """The original constructor's parameters after `self`, as text."""
    if function is torch.nn.Module.__init__:
        return []
    parameters = list(inspect.signature(function).parameters.values())[1:]
    shown = []
    for parameter in parameters:
        plain = parameter.replace(annotation=inspect.Parameter.empty)
        if plain.default is not inspect.Parameter.empty:
            plain = plain.replace(default=_Default(plain.default))
        shown.append(str(plain))
    return shown


@dataclass(frozen=True)
class _Default:
    """A default as it stands in the file; what cannot be written out is None."""

    value: Any

    def __repr__(self) -> str:
        value = self.value
        return written(value) if is_plain(value) else "None"


def is_plain(value: Any) -> bool:
    """Whether a value can be written out and compared: numbers, texts, types of tensors, lists and tuples of them."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, float):
        return not math.isnan(value)
    # Members of some enumerations are numbers or texts as well, and equal to these.
    return isinstance(value, int | str | torch.dtype | type(None))


def written(value: Any) -> str:
    """As Python text; a list as a tuple, which no call can change."""
    if isinstance(value, Enum):
        return written(value.value)
    if isinstance(value, float):
        return f'float("{value}")' if math.isinf(value) else repr(float(value))
    if isinstance(value, list | tuple):
        texts = [written(part) for part in value]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
    return repr(value)


_HANDED_ON: Mapping[object, str] = {
    inspect.Parameter.KEYWORD_ONLY: "{0}={0}",
    inspect.Parameter.VAR_POSITIONAL: "*{0}",
    inspect.Parameter.VAR_KEYWORD: "**{0}",
}


def arguments(module: torch.nn.Module) -> list[inspect.Parameter]:
    """The original forward's parameters, without annotations."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    return [p.replace(annotation=inspect.Parameter.empty) for p in parameters]


def written_parameters(parameters: Sequence[inspect.Parameter]) -> str:
    """Parameters as they stand in a signature."""
    text = str(inspect.Signature(list(parameters)))
    return text[1 : text.rindex(")")]


def passed(parameters: Sequence[inspect.Parameter]) -> str:
    """Parameters handed on to another method."""
    return ", ".join(_HANDED_ON.get(p.kind, "{0}").format(p.name) for p in parameters)


def state_lines(module: torch.nn.Module, shapes: Shapes = NO_SHAPES) -> list[str]:
    """Lines of `__init__` that give the module the original's parameters and buffers, uninitialised."""
    lines: list[str] = []
    made: set[str] = set()
    seen: dict[int, str] = {}
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for path, tensor in {**parameters, **dict(module.named_buffers())}.items():
        *parents, name = path.split(".")
        owner = "self"
        for depth, part in enumerate(parents):
            prefix = ".".join(parents[: depth + 1])
            step = f"{owner}.{part}" if is_attribute(part) else f'{owner}.get_submodule("{part}")'
            if prefix not in made:
                made.add(prefix)
                plain = f"{step} = nn.Module()"
                lines.append(
                    plain if is_attribute(part) else f'{owner}.add_module("{part}", nn.Module())'
                )
            owner = step
        if id(tensor) in seen:
            lines.append(_assigned(owner, name, seen[id(tensor)]))
            continue
        seen[id(tensor)] = (
            f"{owner}.{name}" if is_attribute(name) else f'{owner}.get_parameter("{name}")'
        )
        shape = tuple_of(shapes[path]) if path in shapes else str(tuple(tensor.shape))
        empty = f"torch.empty({shape}, dtype={tensor.dtype})"
        if path in parameters:
            frozen = "" if tensor.requires_grad else ", requires_grad=False"
            lines.append(_assigned(owner, name, f"nn.Parameter({empty}{frozen})"))
        elif path in module.state_dict():
            lines.append(f'{owner}.register_buffer("{name}", {empty})')
        else:
            lines.append(f'{owner}.register_buffer("{name}", {_literal(tensor)}, persistent=False)')
    return lines


def _assigned(owner: str, name: str, parameter: str) -> str:
    """A parameter's line; in a `nn.ParameterList` it has a number for a name."""
    if is_attribute(name):
        return f"{owner}.{name} = {parameter}"
    return f'{owner}.register_parameter("{name}", {parameter})'


def tuple_of(parts: Sequence[str]) -> str:
    """The text of a tuple with these parts."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _literal(tensor: torch.Tensor) -> str:
    """A small constant tensor, written out."""
    return f"torch.tensor({tensor.tolist()}, dtype={tensor.dtype})"


def training_matters(module: torch.nn.Module) -> bool:
    """Whether some part of it reads the flag for training, as dropout and a batch's statistics do."""
    return any(_reads_the_flag(part) for part in module.modules())


def _reads_the_flag(part: torch.nn.Module) -> bool:
    match part:
        case torch.nn.modules.dropout._DropoutNd(p=p):
            return bool(p > 0)
        case torch.nn.modules.batchnorm._NormBase(track_running_stats=tracked):
            return bool(tracked)
        case torch.nn.MultiheadAttention(dropout=dropout) | torch.nn.RNNBase(dropout=dropout):
            return bool(dropout)
    code = getattr(type(part).forward, "__code__", None)
    own = not type(part).__module__.startswith("torch.")
    return own and code is not None and "training" in code.co_names
