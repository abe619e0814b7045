"""Recurrences: the template's matching and its host side. `step_source` prints the kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.refusal import PolicyCannot
from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.templates import Context, Namer, Printed
from kernelagent.models.compiler.templates.layouts import Layout, Layouts
from kernelagent.models.compiler.templates.matmul.pricing import (
    SPLIT,
    Priced,
    how_multiplied,
    offered,
    precisions,
)
from kernelagent.models.compiler.templates.recurrent.step_pricing import Dims, library_us, ranked
from kernelagent.models.compiler.templates.recurrent.step_source import NAMES, Source
from kernelagent.models.compiler.templates.recurrent.stepped import Call, recurrence_of
from kernelagent.tools.calls.float32_precision import recurrences_round

KIND = "recurrence"
_ROUNDED_BY = "as torch's setting for recurrent layers allows"


class Recurrences:
    """The template: see `templates.Template`."""

    def sites(self, context: Context) -> Iterator[RecurrenceSite]:
        layouts = Layouts(context.captured, context.program)
        found = 0
        for at, step in enumerate(context.program.steps):
            call = recurrence_of(step)
            if call is None:
                continue
            gates, hidden = layouts.of(call.gates), layouts.of(call.hidden)
            out = layouts.of(ast.Name(call.out, ast.Load()))
            if (
                gates is None
                or hidden is None
                or out is None
                or not _is_alike(call, layouts, context)
            ):
                raise PolicyCannot(
                    context.what,
                    "it is not known how the inputs or the first states of a recurrent layer lie in memory",
                )
            yield _site(found, at, call, (gates, hidden, out), layouts, context)
            found += 1


def _is_alike(call: Call, layouts: Layouts, context: Context) -> bool:
    """Whether the inputs' parts of both directions lie in memory in one way, a row's units side by side.

    Each has the sizes of its own weights, which are the same numbers though not the same words.
    """
    parts = [layouts.of(node) for node in (call.gates, call.back) if node is not None]
    for sizes in context.sizes:
        strides = {
            None if part is None else tuple(number(n, sizes, context.what) for n in part.strides)
            for part in parts
        }
        (first, *others) = strides
        if others or first is None or first[-1] != 1:
            return False
    return True


def _site(
    count: int,
    at: int,
    call: Call,
    parts: tuple[Layout, Layout, Layout],
    layouts: Layouts,
    context: Context,
) -> RecurrenceSite:
    gates, hidden, out = parts
    steps, every, rows, units = (
        number(size, context.sizes[0], context.what) for size in (gates.shape[0], *hidden.shape)
    )
    chains = len(call.weight)
    dims = Dims(call.kind, steps, rows, units, chains, call.back is not None, gates.dtype)
    asked = precisions(gates.dtype, "high" if recurrences_round() else "highest")
    # Launches decide what a step takes: fp32's accuracy costs little, and errors add up over the steps.
    order = sorted(asked, key=lambda precision: precision != SPLIT)
    priced = [item for precision in order for item in ranked(dims, precision, context.gpu)]
    tensors = layouts.storages(context.program.steps[at].statement)  # type: ignore[union-attr]
    return RecurrenceSite(
        count,
        at,
        call,
        dims,
        gates,
        out,
        chains < every,
        tuple(priced),
        library_us(dims, context.gpu),
        tensors,
    )


@dataclass(frozen=True)
class RecurrenceSite:
    """One recurrence."""

    number: int
    at: int
    call: Call
    dims: Dims
    gates: Layout
    out: Layout
    has_others: bool
    """Whether the given states are of other layers, too."""
    priced: tuple[Priced, ...]
    library_us: float
    tensors: frozenset[str]

    @property
    def key(self) -> str:
        return f"{KIND} {self.number}"

    @property
    def steps(self) -> frozenset[int]:
        return frozenset({self.at})

    @property
    def begins(self) -> int:
        return self.at

    @property
    def first(self) -> Priced:
        return self.priced[0]

    @property
    def pays(self) -> bool:
        return self.first.us <= self.library_us

    @property
    def has_library_form(self) -> bool:
        return False

    @property
    def options(self) -> Mapping[str, bool]:
        return {}

    @property
    def words(self) -> str:
        dims, name = self.dims, NAMES[self.call.kind]
        what = (
            f"the {dims.steps} steps of both directions of a layer of the {name}, both in one launch a step"
            if dims.both_ways
            else f"the {dims.steps} steps of {dims.chains} layers of the {name}, each layer a step behind the one "
            f"below it, all in one launch"
            if dims.stacked
            else f"the {dims.steps} steps of the {name}, a launch each"
        )
        how = how_multiplied(self.first.config.precision, _ROUNDED_BY)
        return f"{what}, products {how} (estimate: {self.first.us:.0f} µs; torch's own: {self.library_us:.0f} µs)"

    def allocated(self, namer: Namer) -> list[str]:
        out = namer.host(ast.Name(self.call.out, ast.Load()))
        shape = ", ".join(namer.host(size) for size in self.out.shape)
        return [f"{out} = torch.empty(({shape}), dtype={self.out.dtype}, device=device)"]

    def printed(self, namer: Namer) -> Printed:
        dims = self.dims
        narrow = dims.dtype != "torch.float32"
        source = Source(dims.kind, dims.both_ways, dims.stacked, bool(self.call.bias), narrow)
        identity = f"{source.kernel('', self.first.config)}{dims}{self.first.config}"
        name = namer.kernel(identity, f"{NAMES[dims.kind].lower()}_step")
        config = namer.chosen(name) or self.first.config
        return Printed(
            name,
            {name: source.kernel(name, config)},
            self._launches(source, name, config, namer),
            config,
            KIND,
            offered(self.priced, self.first, config, name),
            uses_libdevice=dims.kind != "rnn_relu",
        )

    def _launches(self, source: Source, name: str, config: Config, namer: Namer) -> list[str]:
        call = self.call
        steps, rows = (namer.host(size) for size in (self.gates.shape[0], self.out.shape[2]))
        chains, units = (namer.host(size) for size in (self.out.shape[0], self.out.shape[3]))
        out = namer.host(ast.Name(call.out, ast.Load()))
        own = f"[{call.first}:{call.first + self.dims.chains}]" if self.has_others else ""
        lines = [f"{out}[:, 0] = {namer.host(call.hidden)}{own}"]
        if call.cell is not None:
            lines.append(f"{out}[:, -1] = {namer.host(call.cell)}{own}")
        both = [call.gates] if call.back is None else [call.gates, call.back]
        tensors = [*(self._gates(node, namer, lines) for node in both), out]
        roles = {
            "weight": call.weight,
            "bias": call.bias,
            "weight_below": call.weight_below,
            "bias_below": call.bias_below,
        }
        for role, nodes in roles.items():
            if nodes:
                tensors.append(self._together(role, nodes, namer, lines))
        step = namer.local("step")
        given = [*tensors, step, steps, rows, units]
        given += [namer.host(stride) for stride in self.gates.strides[:2]]
        given += [f"{block}={size}" for block, size in config.blocks.items()]
        given += [f"num_warps={config.num_warps}", f"num_stages={config.num_stages}"]
        blocks = config.blocks
        grid = f"triton.cdiv({units}, {blocks['BLOCK_N']}), triton.cdiv({rows}, {blocks['BLOCK_M']}), {chains}"
        more = self.dims.launches - self.dims.steps
        return [
            *lines,
            f"for {step} in range({steps}{f' + {more}' if more else ''}):",
            f"    {name}[({grid})]({', '.join(given)})",
        ]

    def _gates(self, node: ast.expr, namer: Namer, lines: list[str]) -> str:
        """The inputs' part; the kernel is given its strides, so a view of all of a tensor is none."""
        while self.gates.starts_at_zero and isinstance(node, ast.Call):
            node = node.args[0]
        if not isinstance(node, ast.Call):
            return namer.host(node)
        made = namer.local("gates")
        lines.append(f"{made} = {namer.host(node)}")
        return made

    def _together(
        self, role: str, nodes: Sequence[ast.expr], namer: Namer, lines: list[str]
    ) -> str:
        """The weights of all chains in one tensor, which a line makes."""
        spelled = [namer.host(node) for node in nodes]
        made = namer.local(role)
        stacked = f"torch.stack([{', '.join(spelled)}])"
        lines.append(f"{made} = {f'{spelled[0]}.contiguous()' if len(spelled) == 1 else stacked}")
        return made
