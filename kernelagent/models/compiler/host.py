"""The host side of a candidate: what torch does around the kernels, in torch's own words."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten

from kernelagent.models.compiler import attention
from kernelagent.models.compiler.capture import Captured, PolicyCannot, Value
from kernelagent.models.compiler.constructor import tuple_of
from kernelagent.models.compiler.naming import identifier, unique
from kernelagent.models.compiler.numbers import number
from kernelagent.models.compiler.program import Allocate, Program, Size, Torch, elements
from kernelagent.models.compiler.symbolic_functions import (
    CONVOLUTION,
    convolution_spelled_out,
)


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
        own = value.kind in {"input", "constant"}
        hosts[argument] = _local(value.name) if own else _attribute(value.name, value.kind)
    aliases = {
        ast.unparse(s.statement.targets[0]): ast.unparse(s.statement.value)
        for s in program.steps
        if isinstance(s, Torch)
        and isinstance(s.statement, ast.Assign)
        and isinstance(s.statement.value, ast.Name)
    }
    results = [ast.unparse(r) for r in program.results]
    for at, result in enumerate(results):
        label = "out" if len(results) == 1 else f"out_{at}"
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
            elif name not in hosts:
                hosts[name] = "scratch" if count == 0 else f"scratch_{count + 1}"
                count += 1
    return hosts | _size_names(captured, program, hosts)


def _size_names(captured: Captured, program: Program, hosts: Mapping[str, str]) -> dict[str, str]:
    """`x_size_0` for a dimension of an input, `size` for a product of some; the rest is written out."""
    names: dict[str, str] = {}
    for symbol, (value, axis) in _origins(captured).items():
        name = identifier(value.name.replace(".", "_"))
        names[symbol] = unique(f"{name}_size_{axis}", {*hosts.values(), *names.values()})
    for step in program.steps:
        if isinstance(step, Size) and step.name not in names:
            text = spelled(step.value, names)
            if step.name.endswith("numel"):
                names[step.name] = f"({text})"
            else:
                taken = {*hosts.values(), *names.values()}
                names[step.name] = text if text in names.values() else unique("size", taken)
    return names


def _origins(captured: Captured) -> dict[str, tuple[Value, int]]:
    """Where each symbol is read from: an input before a parameter."""
    origins: dict[str, tuple[Value, int]] = {}
    known = zip(captured.values, captured.sizes.shapes, strict=False)
    for value, shape in sorted(known, key=lambda pair: pair[0].kind != "input"):
        for axis, text in enumerate(shape):
            if text.isidentifier():
                origins.setdefault(text, (value, axis))
    return origins


def size_lines(captured: Captured, hosts: Mapping[str, str]) -> list[str]:
    """Each variable size, read from the tensor that has it."""
    return [
        f"{hosts[symbol]} = "
        f"{value.name if value.kind == 'input' else _attribute(value.name, value.kind)}.shape[{axis}]"
        for symbol, (value, axis) in _origins(captured).items()
    ]


def _local(name: str) -> str:
    """The variable of a tensor that is given or made: `position_embeddings[0]` has one of its own."""
    return name if name.isidentifier() and not name.startswith("_") else identifier(name)


def _assigned(step: Any) -> list[str]:
    statement = getattr(step, "statement", None)
    return [ast.unparse(statement.targets[0])] if isinstance(statement, ast.Assign) else []


def _attribute(path: str, kind: str) -> str:
    if all(part.isidentifier() for part in path.split(".")):
        return f"self.{path}"
    getter = "get_parameter" if kind == "parameter" else "get_buffer"
    # A number in the path: torch has a getter for those.
    return f'self.{getter}("{path}")'


def input_lines(captured: Captured, hosts: Mapping[str, str]) -> list[str]:
    """Checks of the inputs, and the device everything else is made on; raises `PolicyCannot`."""
    lines = size_lines(captured, hosts)
    known = captured.sizes
    shapes = known.shapes or [tuple(map(str, v.tensor.shape)) for v in captured.values]
    steps = known.strides or [tuple(map(str, v.tensor.stride())) for v in captured.values]
    for value, shape, stride in zip(captured.values, shapes, steps, strict=True):
        if value.kind != "input":
            continue
        tensor = value.tensor
        # A tensor inside a container is checked under a name of its own.
        shown = value.name.replace('"', "'")
        sizes, strides = (
            tuple_of([spelled(ast.parse(text, mode="eval").body, hosts) for text in texts])
            for texts in (shape, stride)
        )
        arguments = [f'"{shown}"', value.name, sizes, str(tensor.dtype)]
        if not tensor.is_contiguous():
            arguments.append(f"strides={strides}")
        lines.append(f"{_local(value.name)} = _checked({', '.join(arguments)})")
    first = next((v for v in captured.values if v.kind != "constant"), None)
    if first is None:
        raise PolicyCannot("this module", "it takes no tensor")
    device = next((_local(v.name) for v in captured.values if v.kind == "input"), None)
    place = device if device is not None else _attribute(first.name, first.kind)
    lines.append(f"device = {place}.device")
    return lines + [
        f"{_local(value.name)} = torch.tensor({value.tensor.tolist()}, "
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


def torch_line(statement: ast.stmt, hosts: Mapping[str, str]) -> str:
    """One of torch's own statements; empty where it only renames a buffer."""
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
        target, value = (hosts.get(ast.unparse(n)) for n in (statement.targets[0], statement.value))
        return "" if target == value else f"{target} = {value}"
    copy = ast.parse(ast.unparse(statement)).body[0]
    changed = _Torch(hosts).visit(copy)
    return ast.unparse(ast.fix_missing_locations(changed))


class _Torch(ast.NodeTransformer):
    """torch's own calls under their public names."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        self._hosts = hosts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._hosts:
            return ast.parse(self._hosts[node.id], mode="eval").body
        return ast.Name({"aten": "torch.ops.aten"}.get(node.id, node.id), node.ctx)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = ast.unparse(node.func)
        self.generic_visit(node)
        if function == "reinterpret_tensor":
            return _viewed(node)
        if function == attention.OPERATOR:
            return attention.spelled_out(node)
        if function == CONVOLUTION:
            return convolution_spelled_out(node)
        if function.startswith("extern_kernels."):
            node.func = ast.parse(f"torch.{function.split('.', 1)[1]}", mode="eval").body
            node.keywords = [k for k in node.keywords if not _is_one(k)]
        return node


def _is_one(keyword: ast.keyword) -> bool:
    return keyword.arg in {"alpha", "beta"} and ast.unparse(keyword.value) == "1"


def _viewed(node: ast.Call) -> ast.expr:
    tensor, shape, strides, offset = node.args
    size, step = (list(map(ast.unparse, elements(part))) for part in (shape, strides))
    transposed = len(size) == 2 and step[0] == "1" and step[1] == size[0]
    if transposed and ast.unparse(offset) == "0" and ast.unparse(tensor).startswith("self."):
        return ast.parse(f"{ast.unparse(tensor)}.t()", mode="eval").body
    text = f"torch.as_strided({', '.join(ast.unparse(a) for a in node.args)})"
    return ast.parse(text, mode="eval").body


def spelled(value: ast.expr, hosts: Mapping[str, str]) -> str:
    """A launch argument as the host code spells it."""
    copy = ast.parse(ast.unparse(value), mode="eval").body
    return ast.unparse(ast.fix_missing_locations(_Torch(hosts).visit(copy)))


def results(captured: Captured, program: Program, hosts: Mapping[str, str]) -> str:
    """What `forward` returns, in the nest the original returns it in."""
    made = iter([spelled(result, hosts) for result in program.results])
    leaves = [
        _Text(next(made)) if isinstance(leaf, torch.Tensor) else _Text(repr(leaf))
        for leaf in captured.outputs
    ]
    return repr(tree_unflatten(leaves, captured.output_spec))


class _Text:
    """Shows itself as the code it stands for."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __repr__(self) -> str:
        return self._code
