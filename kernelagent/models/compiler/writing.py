"""The candidate's file: plain kernels, and a `ModelNew` that allocates, launches and returns."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelagent.models.compiler.capture import Captured
from kernelagent.models.compiler.choices import Choice, Config, usual
from kernelagent.models.compiler.constructor import (
    arguments,
    passed,
    signature,
    state_lines,
    written_parameters,
)
from kernelagent.models.compiler.host import (
    empty,
    host_names,
    input_lines,
    results,
    spelled,
    torch_line,
)
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
            parameters += signature(type(self._module).__init__)
        lines = [f"    def __init__({', '.join(parameters)}):", "        super().__init__()"]
        for line in state_lines(self._module):
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
        names = arguments(self._module)
        lines = [f"def forward(self, {written_parameters(names)}):"]
        for call in calls:
            tests = [
                f"{value.name}.shape == {tuple(value.tensor.shape)}"
                for value in call.captured.values
                if value.kind == "input"
            ]
            lines += [
                f"    if {' and '.join(tests)}:",
                f"        return self._{identifier(call.name)}({passed(names)})",
            ]
        lines.append('    raise ValueError("these shapes were not compiled for")')
        return "\n".join(lines)

    def _method(self, call: Call, *, alone: bool) -> str:
        name = "forward" if alone else f"_{identifier(call.name)}"
        head = [f"def {name}(self, {written_parameters(arguments(self._module))}):"]
        body = self._body(call.captured)
        if call.fewer is not None:
            body = in_rows(body, self._body(call.fewer), call.captured, call.fewer, self._what)
        return folded("\n".join([*head, *(f"    {line}" for line in body)]))

    def _body(self, captured: Captured) -> list[str]:
        program = parse_program(captured.source, self._what)
        hosts = host_names(captured, program)
        lines = input_lines(captured, hosts)
        for step in program.steps:
            if isinstance(step, Allocate):
                lines.append(f"{hosts[step.name]} = {empty(step)}")
            elif isinstance(step, Launch):
                lines += self._launch(program, step, hosts)
            else:
                lines += filter(None, [torch_line(step.statement, hosts)])
        return [*lines, f"return {results(captured, program, hosts)}"]

    def _launch(self, program: Program, step: Launch, hosts: Mapping[str, str]) -> list[str]:
        kernel = program.kernels[step.kernel]
        parameters = [p.arg for p in kernel.function.args.args if not p.arg.endswith("BLOCK")]
        given = dict(zip(parameters, step.arguments, strict=True))
        sizes = {n: int(ast.literal_eval(v)) for n, v in given.items() if n in _SIZES}
        tensors = {n: spelled(v, hosts) for n, v in given.items() if n not in _SIZES}
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
