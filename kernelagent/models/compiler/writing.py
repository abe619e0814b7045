"""The candidate's file: plain kernels, and a `ModelNew` that allocates, launches and returns."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten

from kernelagent.models.compiler.capture import Captured, PolicyCannot
from kernelagent.models.compiler.choices import Choice, Config, usual
from kernelagent.models.compiler.layout import folded
from kernelagent.models.compiler.naming import (
    identifier,
    kernel_name,
    local_names,
    renamed,
    unique,
)
from kernelagent.models.compiler.program import Allocate, Launch, Program, parse_program
from kernelagent.models.compiler.rewriting import rewrite
from kernelagent.models.compiler.rows import in_rows

_SIZES = ("xnumel", "ynumel", "znumel", "r0_numel")


@dataclass(frozen=True)
class Written:
    """A candidate's source and the configuration of each of its kernels."""

    source: str
    configs: dict[str, Config]
    kinds: dict[str, str]
    """`pointwise`, `reduction` or `persistent_reduction`, by kernel name."""
    sizes: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Call:
    """One captured input set, and the same with fewer rows where the sizes are not to be fixed."""

    name: str
    captured: Captured
    fewer: Captured | None = None


class Writer:
    """Writes one candidate for a module; several input sets share its file."""

    def __init__(self, module: torch.nn.Module, constructor: str, choice: Choice) -> None:
        self._module = module
        self._constructor = constructor
        self._choice = choice
        self._what = type(module).__name__
        self._kernels: dict[str, str] = {}
        self._by_text: dict[str, str] = {}
        self._configs: dict[str, Config] = {}
        self._kinds: dict[str, str] = {}
        self._sizes: dict[str, dict[str, int]] = {}
        self._libdevice = False

    def write(self, calls: Sequence[Call]) -> Written:
        """The whole file; raises `PolicyCannot`."""
        methods = [self._method(call, alone=len(calls) == 1) for call in calls]
        forward = [] if len(calls) == 1 else [self._dispatch(calls)]
        extra = ["from triton.language.extra import libdevice"] if self._libdevice else []
        head = [
            "import torch",
            "import triton",
            "import triton.language as tl",
            "from torch import nn",
        ]
        parts = [
            "\n".join([*head, *extra]),
            *self._kernels.values(),
            _CHECK,
            "\n\n".join(
                [self._class(), *(textwrap.indent(m, "    ") for m in [*forward, *methods])]
            ),
        ]
        source = "\n\n\n".join(parts) + "\n"
        return Written(source, self._configs, self._kinds, self._sizes)

    def _class(self) -> str:
        lines = ["class ModelNew(nn.Module):", *self._constructor_lines()]
        return "\n".join(lines)

    def _constructor_lines(self) -> list[str]:
        parameters = ["self"]
        if self._constructor == "init":
            parameters += _signature(type(self._module).__init__)
        lines = [f"    def __init__({', '.join(parameters)}):", "        super().__init__()"]
        for line in _state_lines(self._module):
            lines += textwrap.indent(folded(line), "        ").splitlines()
        if self._constructor != "init":
            lines += [
                "",
                "    @classmethod",
                "    def from_reference(cls, shell):",
                "        return cls()",
            ]
        return lines

    def _dispatch(self, calls: Sequence[Call]) -> str:
        names = _arguments(self._module)
        lines = [f"def forward(self, {_written(names)}):"]
        for call in calls:
            tests = [
                f"{value.name}.shape == {tuple(value.tensor.shape)}"
                for value in call.captured.values
                if value.kind == "input"
            ]
            lines += [
                f"    if {' and '.join(tests)}:",
                f"        return self._{identifier(call.name)}({_passed(names)})",
            ]
        lines.append('    raise ValueError("these shapes were not compiled for")')
        return "\n".join(lines)

    def _method(self, call: Call, *, alone: bool) -> str:
        name = "forward" if alone else f"_{identifier(call.name)}"
        head = [f"def {name}(self, {_written(_arguments(self._module))}):"]
        body = self._body(call.captured)
        if call.fewer is not None:
            body = in_rows(body, self._body(call.fewer), call.captured, call.fewer, self._what)
        return folded("\n".join([*head, *(f"    {line}" for line in body)]))

    def _body(self, captured: Captured) -> list[str]:
        program = parse_program(captured.source, self._what)
        hosts = _host_names(captured, program)
        lines = _input_lines(captured, hosts)
        for step in program.steps:
            if isinstance(step, Allocate):
                lines.append(f"{hosts[step.name]} = {_empty(step)}")
            elif isinstance(step, Launch):
                lines += self._launch(program, step, hosts)
            else:
                lines += filter(None, [_torch_line(step.statement, hosts)])
        return [*lines, f"return {_results(captured, program, hosts)}"]

    def _launch(self, program: Program, step: Launch, hosts: Mapping[str, str]) -> list[str]:
        kernel = program.kernels[step.kernel]
        parameters = [p.arg for p in kernel.function.args.args if not p.arg.endswith("BLOCK")]
        given = dict(zip(parameters, step.arguments, strict=True))
        sizes = {n: int(ast.literal_eval(v)) for n, v in given.items() if n in _SIZES}
        tensors = {n: _host(v, hosts) for n, v in given.items() if n not in _SIZES}
        name = self._kernel(program, step, tensors, sizes)
        config = self._configs[name]
        grid = ", ".join(_grid_axis(axis, sizes, config) for axis in kernel.axes)
        arguments = [*tensors.values()]
        arguments += [str(sizes[n]) for n in _SIZES if n in sizes and n in self._sizes[name]]
        shown = {"num_warps": config.num_warps, "num_stages": config.num_stages}
        labels = _block_labels(kernel.kind, kernel.axes)
        named = [f"{labels[b]}={size}" for b, size in config.blocks.items()]
        named += [f"{key}={value}" for key, value in shown.items()]
        comma = "," if len(kernel.axes) == 1 else ""
        return [f"{name}[({grid}{comma})]({', '.join([*arguments, *named])})"]

    def _kernel(
        self,
        program: Program,
        step: Launch,
        tensors: Mapping[str, str],
        sizes: Mapping[str, int],
    ) -> str:
        kernel = program.kernels[step.kernel]
        plain = rewrite(kernel, self._what)
        hosts = {
            p: identifier(h.removeprefix("self.").replace(".", "_")) for p, h in tensors.items()
        }
        names = local_names(kernel, plain.body, _distinct(hosts))
        body = "\n".join(ast.unparse(renamed(s, names)) for s in plain.body)
        read = {n.id for n in ast.walk(ast.parse(body)) if isinstance(n, ast.Name)}
        used = {n: s for n, s in sizes.items() if names.get(n, n) in read}
        key = f"{body}{sorted(used)}{plain.blocks}"
        if key in self._by_text:
            return self._by_text[key]
        name = kernel_name(kernel, self._kernels)
        parameters = [names[p] for p in tensors] + [names[n] for n in _SIZES if n in used]
        parameters += [f"{names[b]}: tl.constexpr" for b in plain.blocks]
        lines = ["@triton.jit", folded(f"def {name}({', '.join(parameters)}):")]
        lines += textwrap.indent(folded(body), "    ").splitlines()
        self._kernels[name] = "\n".join(lines)
        self._by_text[key] = name
        first = usual(kernel, plain, dict(sizes))
        chosen = self._choice.configs.get(name, first)
        kept = {b: chosen.blocks.get(b, first.blocks.get(b, 1)) for b in plain.blocks}
        self._configs[name] = Config(kept, chosen.num_warps, chosen.num_stages)
        self._kinds[name] = kernel.kind
        self._sizes[name] = used
        self._libdevice |= plain.uses_libdevice
        return name


_CHECK = """\
def _checked(name, tensor, shape, dtype, strides=None):
    if tuple(tensor.shape) != shape or tensor.dtype != dtype:
        raise ValueError(
            f"{name} must be {dtype} of shape {shape}, not {tensor.dtype} of {tuple(tensor.shape)}"
        )
    if strides is None:
        return tensor.contiguous()
    if tensor.stride() != strides:
        raise ValueError(f"{name} must have the strides {strides}, not {tensor.stride()}")
    return tensor"""


def _label(host: str) -> str:
    """A short name for what a tensor argument is: `self.get_buffer("0.running_mean")` is `running_mean`."""
    path = host.split('"')[1] if '"' in host else host.removeprefix("self.")
    words = [word for word in re.split(r"\W+", path) if word and not word.isdigit()]
    return identifier("_".join(words))


def _block_labels(kind: str, axes: str) -> dict[str, str]:
    if kind != "pointwise":
        return {"XBLOCK": "ROWS", "R0_BLOCK": "BLOCK"}
    if axes == "x":
        return {"XBLOCK": "BLOCK"}
    return {f"{axis.upper()}BLOCK": f"BLOCK_{axis.upper()}" for axis in "xyz"}


def _grid_axis(axis: str, sizes: Mapping[str, int], config: Config) -> str:
    size, block = sizes[f"{axis}numel"], config.blocks.get(f"{axis.upper()}BLOCK", 1)
    return str(size) if block == 1 else f"triton.cdiv({size}, {block})"


def _distinct(hosts: Mapping[str, str]) -> dict[str, str]:
    """Two parameters may be given one tensor, and need two names."""
    names: dict[str, str] = {}
    for parameter, host in hosts.items():
        names[parameter] = unique(host, names.values())
    return names


def _host_names(captured: Captured, program: Program) -> dict[str, str]:
    """Inductor's host variables by a reader's names; aliases share one."""
    hosts: dict[str, str] = {}
    for argument, value in zip(program.arguments, captured.values, strict=True):
        hosts[argument] = (
            value.name if value.kind == "input" else _attribute(value.name, value.kind)
        )
    aliases = {
        ast.unparse(s.statement.targets[0]): ast.unparse(s.statement.value)
        for s in program.steps
        if not isinstance(s, Allocate | Launch)
        and isinstance(s.statement, ast.Assign)
        and isinstance(s.statement.value, ast.Name)
    }
    results = [ast.unparse(r) for r in program.results]
    for number, result in enumerate(results):
        label = "out" if len(results) == 1 else f"out_{number}"
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
    return hosts


def _assigned(step: Any) -> list[str]:
    statement = getattr(step, "statement", None)
    return [ast.unparse(statement.targets[0])] if isinstance(statement, ast.Assign) else []


def _attribute(path: str, kind: str) -> str:
    if all(part.isidentifier() for part in path.split(".")):
        return f"self.{path}"
    getter = "get_parameter" if kind == "parameter" else "get_buffer"
    # A number in the path: torch has a getter for those.
    return f'self.{getter}("{path}")'


def _input_lines(captured: Captured, hosts: Mapping[str, str]) -> list[str]:
    lines = []
    for value in captured.values:
        if value.kind != "input":
            continue
        tensor = value.tensor
        if not value.name.isidentifier():
            raise PolicyCannot("this module", f"its input {value.name} is inside a container")
        strides = "" if tensor.is_contiguous() else f", strides={tuple(tensor.stride())}"
        arguments = [f'"{value.name}"', value.name, str(tuple(tensor.shape)), str(tensor.dtype)]
        lines.append(f"{value.name} = _checked({', '.join(arguments)}{strides})")
    first = next((v for v in captured.values), None)
    if first is None:
        raise PolicyCannot("this module", "it takes no tensor")
    device = next((v.name for v in captured.values if v.kind == "input"), None)
    place = device if device is not None else _attribute(first.name, first.kind)
    return [*lines, f"device = {place}.device"]


def _empty(step: Allocate) -> str:
    expected, running = [], 1
    for size in reversed(step.shape):
        expected.append(running)
        running *= max(size, 1)
    contiguous = all(
        n <= 1 or s == e
        for n, s, e in zip(step.shape, step.strides, reversed(expected), strict=True)
    )
    if contiguous:
        return f"torch.empty({step.shape}, dtype={step.dtype}, device=device)"
    return f"torch.empty_strided({step.shape}, {step.strides}, dtype={step.dtype}, device=device)"


def _torch_line(statement: ast.stmt, hosts: Mapping[str, str]) -> str:
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
        if function.startswith("extern_kernels."):
            node.func = ast.parse(f"torch.{function.split('.', 1)[1]}", mode="eval").body
            node.keywords = [k for k in node.keywords if not _is_one(k)]
        return node


def _is_one(keyword: ast.keyword) -> bool:
    return keyword.arg in {"alpha", "beta"} and ast.unparse(keyword.value) == "1"


def _viewed(node: ast.Call) -> ast.expr:
    tensor, shape, strides, offset = node.args
    size, step = ast.literal_eval(shape), ast.literal_eval(strides)
    transposed = len(size) == 2 and step[0] == 1 and step[1] == size[0]
    if transposed and ast.unparse(offset) == "0" and ast.unparse(tensor).startswith("self."):
        return ast.parse(f"{ast.unparse(tensor)}.t()", mode="eval").body
    text = f"torch.as_strided({', '.join(ast.unparse(a) for a in node.args)})"
    return ast.parse(text, mode="eval").body


def _host(value: ast.expr, hosts: Mapping[str, str]) -> str:
    copy = ast.parse(ast.unparse(value), mode="eval").body
    return ast.unparse(ast.fix_missing_locations(_Torch(hosts).visit(copy)))


def _results(captured: Captured, program: Program, hosts: Mapping[str, str]) -> str:
    made = iter([_host(result, hosts) for result in program.results])
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


def _literal(tensor: torch.Tensor) -> str:
    """A small constant tensor, written out."""
    return f"torch.tensor({tensor.tolist()}, dtype={tensor.dtype})"


def _signature(function: Any) -> list[str]:
    if function is torch.nn.Module.__init__:
        return []
    parameters = list(inspect.signature(function).parameters.values())[1:]
    shown = []
    for parameter in parameters:
        plain = parameter.replace(annotation=inspect.Parameter.empty)
        default = plain.default
        if default is not inspect.Parameter.empty and not isinstance(
            default, int | float | str | bool | type(None) | tuple
        ):
            plain = plain.replace(default=None)
        shown.append(str(plain))
    return shown


def _arguments(module: torch.nn.Module) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(module.forward).parameters.values())
    return [p.replace(annotation=inspect.Parameter.empty) for p in parameters]


def _written(parameters: Sequence[inspect.Parameter]) -> str:
    text = str(inspect.Signature(list(parameters)))
    return text[1 : text.rindex(")")]


def _passed(parameters: Sequence[inspect.Parameter]) -> str:
    return ", ".join(
        f"{p.name}={p.name}" if p.kind is inspect.Parameter.KEYWORD_ONLY else p.name
        for p in parameters
    )


def _state_lines(module: torch.nn.Module) -> list[str]:
    lines: list[str] = []
    made: set[str] = set()
    seen: dict[int, str] = {}
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for path, tensor in {**parameters, **dict(module.named_buffers())}.items():
        *parents, name = path.split(".")
        owner = "self"
        for depth, part in enumerate(parents):
            prefix = ".".join(parents[: depth + 1])
            step = f"{owner}.{part}" if part.isidentifier() else f'{owner}.get_submodule("{part}")'
            if prefix not in made:
                made.add(prefix)
                plain = f"{step} = nn.Module()"
                lines.append(
                    plain if part.isidentifier() else f'{owner}.add_module("{part}", nn.Module())'
                )
            owner = step
        if id(tensor) in seen:
            lines.append(f"{owner}.{name} = {seen[id(tensor)]}")
            continue
        seen[id(tensor)] = f"{owner}.{name}"
        empty = f"torch.empty({tuple(tensor.shape)}, dtype={tensor.dtype})"
        if path in parameters:
            frozen = "" if tensor.requires_grad else ", requires_grad=False"
            lines.append(f"{owner}.{name} = nn.Parameter({empty}{frozen})")
        elif path in module.state_dict():
            lines.append(f'{owner}.register_buffer("{name}", {empty})')
        else:
            lines.append(f'{owner}.register_buffer("{name}", {_literal(tensor)}, persistent=False)')
    return lines
