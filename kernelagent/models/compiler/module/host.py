"""The host side of a candidate: what torch does around the kernels, in torch's own words."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten

from kernelagent.models.compiler.capturing.capture import Captured, PolicyCannot, Value
from kernelagent.models.compiler.kernels.naming import identifier, is_attribute, unique
from kernelagent.models.compiler.module.checks import (
    AS_IT_LAY,
    AS_IT_LIES,
    CONTIGUOUS,
    IN_ORDER,
)
from kernelagent.models.compiler.module.constructor import tuple_of
from kernelagent.models.compiler.module.spelling import Whole, is_own, spelled, texts_of, viewed
from kernelagent.models.compiler.program.algebra import factored
from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.program.program import Allocate, Program, Size, Torch


def host_names(captured: Captured, program: Program) -> dict[str, str]:
    """Inductor's host variables by a reader's names; aliases share one."""
    hosts: dict[str, str] = {}
    if len(program.arguments) != len(captured.values):
        raise PolicyCannot(
            "this module",
            f"its compiled form takes {len(program.arguments)} tensors and the module has "
            f"{len(captured.values)}: parameters, buffers, inputs and constants",
        )
    for argument, value in zip(program.arguments, captured.values, strict=True):
        hosts[argument] = place(value)
    aliases = _aliases(program)
    results = [ast.unparse(r) for r in program.results]
    for at, result in enumerate(results):
        label = "out" if len(results) == 1 else f"out_{at}"
        label = captured.names[at] if captured.names else label
        result = _viewed_buffer(result) or result
        while result in aliases:
            hosts.setdefault(result, label)
            result = aliases[result]
        hosts.setdefault(result, label)
    count = 0
    for step in program.steps:
        names = [step.name] if isinstance(step, Allocate) else _assigned(step)
        for name in names:
            source = aliases.get(name)
            if source is not None and source in hosts:
                hosts.setdefault(name, hosts[source])
            elif name not in hosts and not name.startswith("buf") and isinstance(step, Allocate):
                hosts[name] = unique(name, hosts.values())
            elif name not in hosts:
                hosts[name] = "scratch" if count == 0 else f"scratch_{count + 1}"
                count += 1
    return hosts | _size_names(captured, program, hosts)


def _aliases(program: Program) -> dict[str, str]:
    """Names that are given to what has one; a view of a whole buffer in its own shape is that buffer."""
    buffers = {
        s.name: (texts_of(s.shape, {}), texts_of(s.strides, {})) for s in _allocations(program)
    }
    result = {}
    for step in program.steps:
        if not (isinstance(step, Torch) and isinstance(step.statement, ast.Assign)):
            continue
        value = step.statement.value
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "reinterpret_tensor":
            value = viewed(value, buffers, own=is_own(value))
        if isinstance(value, ast.Name):
            result[ast.unparse(step.statement.targets[0])] = value.id
    return result


def _allocations(program: Program) -> list[Allocate]:
    return [step for step in program.steps if isinstance(step, Allocate)]


def _viewed_buffer(result: str) -> str | None:
    """The buffer that a result is a view of."""
    match = re.match(r"reinterpret_tensor\((buf\d+),", result)
    return match[1] if match else None


def _size_names(captured: Captured, program: Program, hosts: Mapping[str, str]) -> dict[str, str]:
    """`x_size_0` for a dimension of an input, `size` for a product of some; the rest is written out."""
    names: dict[str, str] = {}
    for symbol, (value, axis) in _origins(captured).items():
        name = identifier(value.name.replace(".", "_"))
        names[symbol] = unique(f"{name}_size_{axis}", {*hosts.values(), *names.values()})
    for step in program.steps:
        if isinstance(step, Size) and step.name not in names:
            text = factored(spelled(step.value, names))
            if step.name.endswith("numel"):
                names[step.name] = f"({text})"
            else:
                taken = {*hosts.values(), *names.values()}
                names[step.name] = text if text in names.values() else unique("size", taken)
    return names


def _origins(captured: Captured) -> dict[str, tuple[Value, int]]:
    """Where each symbol is read from: the module's own state before an input, which is checked against it."""
    origins: dict[str, tuple[Value, int]] = {}
    known = zip(captured.values, captured.sizes.shapes, strict=False)
    for value, shape in sorted(known, key=lambda pair: pair[0].kind == "input"):
        for axis, text in enumerate(shape):
            if text.isidentifier():
                origins.setdefault(text, (value, axis))
    return origins


def size_lines(
    captured: Captured, hosts: Mapping[str, str], of: Value | None = None, *, state: bool = False
) -> list[str]:
    """Each variable size, read from the tensor that has it; those `of` one alone, or of the module's state."""
    return [
        f"{hosts[symbol]} = {value.name if value.kind == 'input' else place(value)}.shape[{axis}]"
        for symbol, (value, axis) in _origins(captured).items()
        if (value.kind != "input" if state else of is None or value is of)
    ]


def place(value: Value) -> str:
    """The tensor as the code that uses it has it: a variable, or an attribute of the module."""
    if value.local or value.kind in {"input", "constant"}:
        return local(value.name)
    return _attribute(value.name, value.kind)


def local(name: str) -> str:
    """The variable of a tensor that is given or made: `position_embeddings[0]` has one of its own."""
    return name if name.isidentifier() and not name.startswith("_") else identifier(name)


def _assigned(step: Any) -> list[str]:
    statement = getattr(step, "statement", None)
    return [ast.unparse(statement.targets[0])] if isinstance(statement, ast.Assign) else []


def _attribute(path: str, kind: str) -> str:
    if all(is_attribute(part) for part in path.split(".")):
        return f"self.{path}"
    part, _, name = path.rpartition(".")
    if part and is_attribute(name):
        # A number in the path: torch has a getter for those.
        return f'self.get_submodule("{part}").{name}'
    getter = "get_parameter" if kind == "parameter" else "get_buffer"
    return f'self.{getter}("{path}")'


def input_lines(captured: Captured, hosts: Mapping[str, str]) -> list[str]:
    """A check of each input, and each variable size: an input's own once it was seen to have that axis."""
    lines = size_lines(captured, hosts, state=True)
    origins = _origins(captured)
    read = {symbol for symbol, (value, _) in origins.items() if value.kind != "input"}
    later: list[_Checked] = []
    for checked in _checks(captured, ("input",)):
        own = {symbol for symbol, (value, _) in origins.items() if value is checked.value}
        first = [size for size in checked.shape if size in own]
        rest = {name for size in checked.shape if size not in own for name in _NAMES.findall(size)}
        if checked.strides is None and len(first) == len(set(first)) and rest <= read:
            lines.append(checked.line(hosts, own))
        else:
            later.append(checked)
        lines += size_lines(captured, hosts, checked.value)
        read |= own
    lines += [checked.line(hosts) for checked in later]
    # Moved to another memory format, weights of these ranks lie in another order.
    weights = [
        place(value)
        for value in captured.values
        if value.kind == "parameter" and value.tensor.dim() > 3 and value.tensor.is_contiguous()
    ]
    return [*lines, f"{IN_ORDER}({', '.join(weights)})"] if weights else lines


_NAMES = re.compile(r"[A-Za-z_]\w*")


def kept_lines(captured: Captured, hosts: Mapping[str, str]) -> list[str]:
    """A check of what a backward is given: each upstream gradient, and what was kept and is not in order.

    A hook of torch's may have packed what was kept, and bring it back in order.
    """
    return [
        checked.line(hosts)
        for checked in _checks(captured, ("upstream", "saved"))
        if checked.value.kind == "upstream" or checked.strides is not None
    ]


@dataclass(frozen=True)
class _Checked:
    """A tensor that is checked before it is used."""

    value: Value
    shape: tuple[str, ...]
    strides: tuple[str, ...] | None
    """None where it is contiguous, or copied."""

    def line(self, hosts: Mapping[str, str], unknown: Collection[str] = ()) -> str:
        """The statement; `unknown`: sizes that may be any."""
        # A tensor inside a container is checked under a name of its own.
        shown = self.value.name.replace('"', "'")
        sizes = ["None" if size in unknown else _host_size(size, hosts) for size in self.shape]
        given = [f'"{shown}"', self.value.name, tuple_of(sizes), str(self.value.tensor.dtype)]
        function = CONTIGUOUS
        if self.strides is not None:
            function = AS_IT_LIES if self.value.kind == "input" else AS_IT_LAY
            given.append(tuple_of([_host_size(step, hosts) for step in self.strides]))
        return f"{local(self.value.name)} = {function}({', '.join(given)})"


def _checks(captured: Captured, kinds: Sequence[str]) -> list[_Checked]:
    known = captured.sizes
    shapes = known.shapes or [tuple(map(str, v.tensor.shape)) for v in captured.values]
    steps = known.strides or [tuple(map(str, v.tensor.stride())) for v in captured.values]
    return [
        _Checked(value, tuple(shape), None if value.tensor.is_contiguous() else tuple(stride))
        for value, shape, stride in zip(captured.values, shapes, steps, strict=True)
        if value.kind in kinds
    ]


def _host_size(text: str, hosts: Mapping[str, str]) -> str:
    return spelled(ast.parse(text, mode="eval").body, hosts)


def device_lines(captured: Captured) -> list[str]:
    """The device everything else is made on, and what the forward makes itself; raises `PolicyCannot`."""
    given = [value for value in captured.values if value.kind != "constant"]
    if not given:
        raise PolicyCannot("this module", "it takes no tensor")
    first = next((value for value in given if value.kind == "input"), given[0])
    return [f"device = {place(first)}.device"] + [
        f"{local(value.name)} = torch.tensor({value.tensor.tolist()}, "
        f"dtype={value.tensor.dtype}, device=device)"
        for value in captured.values
        if value.kind == "constant"
    ]


def empty(step: Allocate, sizes: Sequence[Mapping[str, int]], hosts: Mapping[str, str]) -> str:
    """The allocation of one buffer; `sizes`: what its named sizes may be."""
    shape, strides = (
        tuple_of([spelled(node, hosts) for node in nodes]) for nodes in (step.shape, step.strides)
    )
    if all(_is_contiguous(step, values) for values in sizes):
        return f"torch.empty({shape}, dtype={step.dtype}, device=device)"
    return f"torch.empty_strided({shape}, {strides}, dtype={step.dtype}, device=device)"


def _is_contiguous(step: Allocate, values: Mapping[str, int]) -> bool:
    running = 1
    for node, stride in zip(reversed(step.shape), reversed(step.strides), strict=True):
        size = number(node, values, "this module")
        if size > 1 and number(stride, values, "this module") != running:
            return False
        running *= max(size, 1)
    return True


def whole_tensors(captured: Captured, program: Program, hosts: Mapping[str, str]) -> Whole:
    """Those that a program is given or makes."""
    known = captured.sizes
    shapes = known.shapes or [tuple(map(str, v.tensor.shape)) for v in captured.values]
    strides = known.strides or [tuple(map(str, v.tensor.stride())) for v in captured.values]
    result = {}
    for value, *texts in zip(captured.values, shapes, strides, strict=True):
        shape, steps = ([ast.parse(text, mode="eval").body for text in row] for row in texts)
        result[place(value)] = texts_of(shape, hosts), texts_of(steps, hosts)
    for step in _allocations(program):
        result[hosts[step.name]] = texts_of(step.shape, hosts), texts_of(step.strides, hosts)
    return result


def without_unread_sizes(
    lines: Sequence[str], named: Collection[str], returned: Sequence[str]
) -> list[str]:
    """Without the assignments of sizes that nothing reads, as where a template has taken over a launch."""
    kept: list[str] = []
    read = {name for text in returned for name in _NAMES.findall(text)}
    for line in reversed(lines):
        target, equals, value = line.partition(" = ")
        if equals and target in named and target not in read:
            continue
        read |= set(_NAMES.findall(value if equals and target in named else line))
        kept.insert(0, line)
    return kept


def results(
    captured: Captured, program: Program, hosts: Mapping[str, str], copied: Collection[int] = ()
) -> str:
    """What `forward` returns, in the nest the original returns it in; `copied`: results by place."""
    known = whole_tensors(captured, program, hosts)
    texts = [spelled(result, hosts, known) for result in program.results]
    return nested(captured, [f"{t}.clone()" if at in copied else t for at, t in enumerate(texts)])


def nested(captured: Captured, texts: Sequence[str]) -> str:
    """The tensors of a result in the nest the original returns them in."""
    made = iter(texts)
    leaves = [
        _Text(next(made)) if isinstance(leaf, torch.Tensor) else _Text(repr(leaf))
        for leaf in captured.outputs
    ]
    return repr(_plain(tree_unflatten(leaves, captured.output_spec)))


def _plain(value: Any) -> Any:
    """An ordered dictionary, or a tuple of torch's with names, as a container that needs no import."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    return [_plain(item) for item in value] if isinstance(value, list) else value


class _Text:
    """Shows itself as the code it stands for."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __repr__(self) -> str:
        return self._code
