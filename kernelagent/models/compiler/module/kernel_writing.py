"""The kernels of a candidate's file: their text, their names and how they are launched."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelagent.models.compiler.choices import Choice, Config, usual
from kernelagent.models.compiler.kernels.layout import WIDTH, folded
from kernelagent.models.compiler.kernels.naming import (
    identifier,
    kernel_name,
    local_names,
    path_of,
    renamed,
    unique,
)
from kernelagent.models.compiler.kernels.rewriting import rewrite
from kernelagent.models.compiler.module.spelling import spelled
from kernelagent.models.compiler.program.dataflow import stored_to
from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.program.program import Launch, Program

_SIZES = ("xnumel", "ynumel", "znumel", "r0_numel")
_HELD = "persistent_reduction"
_LONGEST_Y = 65535
"""Programs that CUDA starts along a grid's y axis."""


class KernelWriter:
    """Writes each kernel once, however often it is launched."""

    def __init__(self, what: str, choice: Choice) -> None:
        self._choice = choice
        self._what = what
        self._kernels: dict[str, str] = {}
        self._by_text: dict[str, str] = {}
        self._configs: dict[str, Config] = {}
        self._kinds: dict[str, str] = {}
        self._passed: dict[str, list[str]] = {}
        self._libdevice = False
        self._variables: set[str] = set()
        """Names that hide a kernel of the same name."""

    def _launch(
        self,
        program: Program,
        step: Launch,
        hosts: Mapping[str, str],
        values: Mapping[str, int],
        *,
        ending: str,
    ) -> list[str]:
        kernel = program.kernels[step.kernel]
        parameters = [p.arg for p in kernel.function.args.args if not p.arg.endswith("BLOCK")]
        given = dict(zip(parameters, step.arguments, strict=True))
        sizes = {n: number(v, values, self._what) for n, v in given.items() if n in _SIZES}
        texts = {n: bare(spelled(v, hosts)) for n, v in given.items()}
        tensors = {n: text for n, text in texts.items() if n not in sizes and not _is_factor(n)}
        again = _written_back(tensors)
        tensors = {n: text for n, text in tensors.items() if n not in again}
        name = self._kernel(program, step, tensors, sizes, texts, ending, again)
        config = self._configs[name]
        axes = [_grid_axis(axis, texts, config) for axis in kernel.axes.removesuffix("+")]
        if kernel.axes == "xy+":
            axes[1:] = [f"min({axes[1]}, {_LONGEST_Y})", f"triton.cdiv({axes[1]}, {_LONGEST_Y})"]
        grid = ", ".join(axes)
        arguments = [*tensors.values()]
        arguments += [texts[n] for n in self._passed[name]]
        shown = {"num_warps": config.num_warps, "num_stages": config.num_stages}
        labels = _block_labels(kernel.kind, kernel.axes)
        blocks = {b: str(size) for b, size in config.blocks.items()}
        if kernel.kind == _HELD and not isinstance(given["r0_numel"], ast.Constant):
            # A block that holds a whole row, however long that is.
            blocks["R0_BLOCK"] = f"triton.next_power_of_2({texts['r0_numel']})"
        named = [f"{labels[b]}={size}" for b, size in blocks.items()]
        named += [f"{key}={value}" for key, value in shown.items()]
        comma = "," if len(kernel.axes) == 1 else ""
        return [f"{name}[({grid}{comma})]({', '.join([*arguments, *named])})"]

    def _kernel(
        self,
        program: Program,
        step: Launch,
        tensors: Mapping[str, str],
        sizes: Mapping[str, int],
        texts: Mapping[str, str],
        ending: str,
        again: Mapping[str, str],
    ) -> str:
        kernel = program.kernels[step.kernel]
        plain = rewrite(kernel, self._what)
        if again and kernel.kind != "pointwise":
            plain = replace(plain, body=_with_barrier(plain.body, set(again)))
        paths = {p: path_of(h).replace(".", "_") for p, h in tensors.items()}
        # What stands in a sequence has a number for a name.
        hosts = {p: identifier(f"layer_{t}" if t[0].isdigit() else t) for p, t in paths.items()}
        names = local_names(kernel, plain.body, _distinct(hosts))
        names |= {other: names[first] for other, first in again.items()}
        body = "\n".join(ast.unparse(renamed(s, names)) for s in plain.body)
        read = {n.id for n in ast.walk(ast.parse(body)) if isinstance(n, ast.Name)}
        factors = [n for n in texts if _is_factor(n) and names.get(n, n) in read]
        used = [n for n in _SIZES if n in sizes and names.get(n, n) in read]
        key = f"{body}{[(n, sizes[n]) for n in used]}{plain.blocks}"
        if key in self._by_text:
            return self._by_text[key]
        name = kernel_name(kernel, {*self._kernels, *self._variables}, ending)
        parameters = [names[p] for p in tensors]
        parameters += [f"{names[n]}: tl.constexpr" for n in factors] + [names[n] for n in used]
        parameters += [f"{names[b]}: tl.constexpr" for b in plain.blocks]
        lines = ["@triton.jit", folded(f"def {name}({', '.join(parameters)}):")]
        lines += textwrap.indent(folded(body), "    ").splitlines()
        given = dict(zip((p.arg for p in kernel.function.args.args), step.arguments, strict=False))
        called = {ast.unparse(given[p]): names[p].removesuffix("_ptr") for p in tensors}
        lines[2:2] = _docstring(kernel.expressions, called)
        self._kernels[name] = "\n".join(lines)
        self._by_text[key] = name
        first = usual(kernel, plain, dict(sizes))
        chosen = self._choice.configs.get(name, first)
        kept = {b: chosen.blocks.get(b, first.blocks.get(b, 1)) for b in plain.blocks}
        self._configs[name] = Config(kept, chosen.num_warps, chosen.num_stages)
        self._kinds[name] = kernel.kind
        self._passed[name] = [*factors, *used]
        self._libdevice |= plain.uses_libdevice
        return name


def _docstring(expressions: Sequence[str], called: Mapping[str, str]) -> list[str]:
    """What a kernel computes; `called`: the kernel's names for tensors by Inductor's."""
    if not expressions:
        return []
    words = [re.sub(r"\w+", lambda m: called.get(m[0], m[0]), text) for text in expressions]
    if len(words) == 1 and len(words[0]) < WIDTH - 12:
        return [f'    """In PyTorch: {words[0]}."""']
    folds = [
        textwrap.wrap(text, WIDTH - 4, subsequent_indent="    ", break_long_words=False)
        for text in words
    ]
    return [
        '    """In PyTorch:',
        "",
        *(f"    {line}" for fold in folds for line in fold),
        '    """',
    ]


def _block_labels(kind: str, axes: str) -> dict[str, str]:
    if kind != "pointwise":
        return {"XBLOCK": "ROWS", "R0_BLOCK": "BLOCK"}
    if axes == "x":
        return {"XBLOCK": "BLOCK"}
    return {f"{axis.upper()}BLOCK": f"BLOCK_{axis.upper()}" for axis in "xyz"}


def _grid_axis(axis: str, sizes: Mapping[str, str], config: Config) -> str:
    size, block = sizes[f"{axis}numel"], config.blocks.get(f"{axis.upper()}BLOCK", 1)
    return size if block == 1 else f"triton.cdiv({size}, {block})"


def _is_factor(parameter: str) -> bool:
    """`ks0`: a size that addresses are computed with."""
    return re.fullmatch(r"ks\d+", parameter) is not None


def bare(text: str) -> str:
    return ast.unparse(ast.parse(text, mode="eval").body)


def _written_back(tensors: Mapping[str, str]) -> dict[str, str]:
    """Parameters for results that go to a tensor which the kernel is given to read, by that parameter."""
    read = {text: n for n, text in tensors.items() if n.startswith("in_ptr")}
    return {n: read[t] for n, t in tensors.items() if n.startswith("out_ptr") and t in read}


def _with_barrier(body: Sequence[ast.stmt], written: set[str]) -> list[ast.stmt]:
    """All threads of a program have read what it writes over: a row's own number is held by several of them."""
    barrier = ast.parse("tl.debug_barrier()").body[0]
    first = next((at for at, s in enumerate(body) if written & stored_to(s)), len(body))
    return [*body[:first], barrier, *body[first:]]


def _distinct(hosts: Mapping[str, str]) -> dict[str, str]:
    """Two parameters may be given one tensor, and need two names."""
    names: dict[str, str] = {}
    for parameter, host in hosts.items():
        names[parameter] = unique(host, names.values())
    return names
