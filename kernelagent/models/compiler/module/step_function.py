"""A forward and its backward as one `torch.autograd.Function` of a candidate."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from kernelagent.models.compiler.capturing.capture import Captured
from kernelagent.models.compiler.capturing.capture_step import Pair, outer_names
from kernelagent.models.compiler.kernels.layout import folded
from kernelagent.models.compiler.kernels.naming import identifier, unique
from kernelagent.models.compiler.module.host import (
    device_lines,
    host_names,
    input_lines,
    kept_lines,
    nested,
    place,
    size_lines,
    whole_tensors,
)
from kernelagent.models.compiler.module.spelling import spelled
from kernelagent.models.compiler.program.program import Program, parse_program
from kernelagent.models.compiler.templates.layouts import Layouts

BACKWARD = "backward "
"""How the keys of what can be chosen in a backward begin, behind the function's."""


class Computed(Protocol):
    """The writer's lines for the steps of a program."""

    def __call__(
        self, captured: Captured, program: Program, hosts: Mapping[str, str], part: str
    ) -> list[str]: ...


def function_name(module: str, of: str) -> str:
    """`GatedNormFunction`; `of`: which of several it is."""
    words = [word[:1].upper() + word[1:] for word in of.split("_") if word]
    return f"{identifier(module)}{''.join(words)}Function"


class StepFunction:
    """The text of one function of autograd."""

    def __init__(self, pair: Pair, what: str, computed: Computed, written: Collection[str]) -> None:
        """`what`: the module's class, for messages; `written`: buffers, by their places, that calls write to."""
        self._pair = pair
        self._written = written
        self._what = what
        self._computed = computed
        self.arguments: list[int] = []
        """Which of the pair's values it takes, once its source is known."""

    def source(self, name: str, part: str) -> str:
        """The class; `part`: a beginning for the keys of what can be chosen in it."""
        body, results = self._forward(part)
        kept = self._kept(results)
        body = [*self._as_they_were(kept), *body]
        local = [value for value in self._pair.forward.values if value.kind != "constant"]
        read = _words([*body, *kept.values()])
        taken = [
            at
            for at, value in enumerate(local)
            if value.name in read or self._pair.gradients[at] is not None
        ]
        self.arguments = sorted(taken, key=lambda at: local[at].kind != "input")
        names = [local[at].name for at in self.arguments]
        returned = [results[at] for at in self._pair.returned]
        marked, without = self._without_gradient(returned)
        backward = self._backward(part, kept)
        lines = [
            f"class {name}(torch.autograd.Function):",
            "    @staticmethod",
            f"    def forward(ctx, {', '.join(names)}):",
            *_indented(body),
        ]
        if kept:
            lines.append(f"        ctx.save_for_backward({', '.join(kept.values())})")
        lines += _indented(without)
        lines += [
            f"        return {', '.join(marked)}",
            "",
            "    @staticmethod",
            "    @once_differentiable",
            f"    def backward(ctx, {', '.join(self._upstream())}):",
            *_indented(backward),
        ]
        return folded("\n".join(lines))

    def applied(self, name: str, outside: Captured) -> list[str]:
        """Lines of a method that call it; `outside`: the forward by the module's own names."""
        program = parse_program(outside.source, self._what)
        lines = input_lines(outside, host_names(outside, program))
        given = [place(self._pair.values[at]) for at in self.arguments]
        made = f"{name}.apply({', '.join(given)})"
        # Counted last: whoever catches what the function raises finds the count as it was.
        counted = [
            f"{place(self._pair.values[at])}.add_({count})"
            for at, count in self._pair.counters.items()
        ]
        outs = outer_names(len(self._pair.returned))
        if nested(outside, outs) == "out" and not counted:
            return [*lines, f"return {made}"]
        result = f"return {nested(outside, outs)}"
        return [*lines, f"{', '.join(outs)} = {made}", *counted, result]

    def _forward(self, part: str) -> tuple[list[str], list[str]]:
        """Its lines, and the texts of the program's results."""
        captured = self._pair.forward
        program = parse_program(captured.source, self._what)
        hosts = host_names(captured, program)
        lines = self._computed(captured, program, hosts, part)
        known = whole_tensors(captured, program, hosts)
        results = [spelled(result, hosts, known) for result in program.results]
        before = [*size_lines(captured, hosts), *device_lines(captured)]
        return [*_needed(before, [*lines, *results]), *lines], results

    def _kept(self, results: Sequence[str]) -> dict[str, str]:
        """What the backward reads of the forward: its names there, and what the forward calls it."""
        local = [value for value in self._pair.forward.values if value.kind != "constant"]
        values = [value for value in self._pair.backward.values if value.kind != "constant"]
        return {
            value.name: local[origin.at].name if origin.of == "value" else results[origin.at]
            for value, origin in zip(values, self._pair.origins, strict=True)
            if origin.of != "upstream"
        }

    def _as_they_were(self, kept: dict[str, str]) -> list[str]:
        """Lines that copy what this call or one after it writes to, where the backward reads it as it was before."""
        local = [value for value in self._pair.forward.values if value.kind != "constant"]
        pairs = zip(local, self._pair.values, strict=True)
        written = {own.name for own, value in pairs if place(value) in self._written}
        lines = []
        for name, text in kept.items():
            if text in written:
                kept[name] = unique(f"{text}_before", {value.name for value in local})
                lines.append(f"{kept[name]} = {text}.clone()")
        return lines

    def _without_gradient(self, returned: Sequence[str]) -> tuple[list[str], list[str]]:
        """What is returned, and the lines that mark those of it that have no gradient."""
        texts, lines, marked = list(returned), list[str](), list[str]()
        for at, has in enumerate(self._pair.differentiable):
            if has:
                continue
            if not texts[at].isidentifier():
                # Marked is the very tensor that is returned, not another view like it.
                name = unique(f"constant_{at}", _words(returned))
                lines.append(f"{name} = {texts[at]}")
                texts[at] = name
            marked.append(texts[at])
        return texts, [
            *lines,
            f"ctx.mark_non_differentiable({', '.join(marked)})",
        ] if marked else []

    def _upstream(self) -> list[str]:
        return [f"grad_{name}" for name in outer_names(len(self._pair.returned))]

    def _backward(self, part: str, kept: Mapping[str, str]) -> list[str]:
        captured = self._pair.backward
        program = parse_program(captured.source, self._what)
        hosts = host_names(captured, program)
        lines = self._computed(captured, program, hosts, f"{part}{BACKWARD}")
        known = whole_tensors(captured, program, hosts)
        results = [spelled(result, hosts, known) for result in program.results]
        texts = _apart(captured, program, results)
        outcome = [self._pair.gradients[at] for at in self.arguments]
        gradients = ["None" if at is None else texts[at] for at in outcome]
        checks = kept_lines(captured, hosts)
        used = _needed(checks, [*lines, *texts])
        before = [*size_lines(captured, hosts), *used, *device_lines(captured)]
        unpacked = f"({next(iter(kept))},)" if len(kept) == 1 else ", ".join(kept)
        saved = [f"{unpacked} = ctx.saved_tensors"] if kept else []
        return [
            *saved,
            *_needed(before, [*used, *lines, *texts]),
            *lines,
            f"return {', '.join(gradients)}",
        ]


def _needed(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Those assignments whose variable is read afterwards."""
    kept: list[str] = []
    for line in reversed(before):
        if line.split(" = ", 1)[0] in _words([*after, *(k.split(" = ", 1)[1] for k in kept)]):
            kept.insert(0, line)
    return kept


def _words(texts: Sequence[str]) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", "\n".join(texts)))


def _indented(lines: Sequence[str]) -> list[str]:
    return textwrap.indent("\n".join(lines), " " * 8).splitlines() if lines else []


def _apart(captured: Captured, program: Program, texts: Sequence[str]) -> list[str]:
    """The gradients, each in a memory of its own: torch keeps what it is given as `.grad`."""
    layouts = Layouts(captured, program)
    held: set[str] = set()
    result = []
    for node, text in zip(program.results, texts, strict=True):
        storages = layouts.storages(node)
        result.append(f"{text}.clone()" if storages & held else text)
        held |= storages
    return result
