"""Convolutions with what follows them: the template's matching and its host side.

`conv_source` prints the kernels. A convolution that torch's library is estimated to do faster, with
whatever must follow it, is left to the library unless a turn asks otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelagent.models.compiler.kernels.naming import kernel_name, label, unique
from kernelagent.models.compiler.templates import Context, Namer, Printed, Site
from kernelagent.models.compiler.templates.convolution.conv_places import SPATIAL
from kernelagent.models.compiler.templates.convolution.conv_pricing import library_us, ranked
from kernelagent.models.compiler.templates.convolution.conv_source import Source
from kernelagent.models.compiler.templates.convolution.convolutions import Convolution, convolutions
from kernelagent.models.compiler.templates.layouts import Layouts
from kernelagent.models.compiler.templates.matmul.epilogue import Epilogue, epilogue_of
from kernelagent.models.compiler.templates.matmul.pricing import (
    NEARLY,
    Priced,
    how_multiplied,
    offered,
    precisions,
    round_trip_us,
)
from kernelagent.tools.calls.float32_precision import convolutions_round
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

KIND = "convolution"
_ADDRESSED = 1 << 31
"""Elements from which on an offset needs 64 bits."""
_ROUNDED_BY = "as cuDNN's convolutions may be here"


class Convolutions:
    """The template: see `templates.Template`."""

    def sites(self, context: Context) -> Iterator[Site]:
        layouts = Layouts(context.captured, context.program)
        taken: set[int] = set()
        every = convolutions(context.program, layouts, context.sizes, context.what)
        for number, conv in enumerate(every):
            end = epilogue_of(context, layouts, conv)
            if end is not None and end.at in taken:
                end = None
            site = _site(number, conv, end, layouts, context.gpu)
            taken |= site.steps
            yield site


def _site(
    number: int, conv: Convolution, end: Epilogue | None, layouts: Layouts, gpu: DeviceCeilings
) -> ConvolutionSite:
    # Depthwise there is nothing to multiply as matrices, and torch's own kernels do not round either.
    allowed = "high" if convolutions_round() else "highest"
    asked = (None,) if conv.depthwise else precisions(conv.x.dtype, allowed)
    priced = [item for precision in asked for item in ranked(conv, precision, gpu)]
    usual = min(priced, key=lambda item: item.us)
    first = next(item for item in priced if item.us <= usual.us * NEARLY)
    saved = round_trip_us(conv, gpu) if end is not None else 0.0
    nodes = [] if end is None else list(end.tensors.values())
    reached = layouts.storages(ast.Tuple(nodes, ast.Load()))
    return ConvolutionSite(
        number, conv, end, first, tuple(priced), library_us(conv, gpu) + saved, reached
    )


@dataclass(frozen=True)
class ConvolutionSite:
    """One convolution and what its tiles do after it."""

    number: int
    conv: Convolution
    end: Epilogue | None
    first: Priced
    priced: tuple[Priced, ...]
    library_us: float
    """Of torch's convolution and of the round trip that an epilogue saves."""
    reached: frozenset[str]
    """Storages that the epilogue reads or writes."""

    @property
    def key(self) -> str:
        return f"{KIND} {self.number}"

    @property
    def at(self) -> int:
        return self.conv.at if self.end is None else self.end.at

    @property
    def steps(self) -> frozenset[int]:
        return frozenset({self.conv.at, self.at})

    @property
    def begins(self) -> int:
        return self.conv.at

    @property
    def tensors(self) -> frozenset[str]:
        own = {operand.storage for operand in self.conv.operands}
        return frozenset(own | self.reached | ({self.conv.out.storage} if self._stores else set()))

    @property
    def _stores(self) -> bool:
        """The convolution's own memory is written, by it or by an epilogue in its place."""
        return self.end is None or self.conv.out.storage in self.reached

    @property
    def pays(self) -> bool:
        return self.first.us <= self.library_us

    @property
    def has_library_form(self) -> bool:
        return True

    @property
    def options(self) -> Mapping[str, bool]:
        return {}

    @property
    def words(self) -> str:
        conv, s = self.conv, self.conv.sizes
        window = " × ".join(map(str, conv.window))
        how = how_multiplied(self.first.config.precision, _ROUNDED_BY)
        if conv.depthwise:
            how = "channel by channel"
        with_end = "with what follows it " if self.end is not None else ""
        kind = "transposed convolution" if conv.call.transposed else "convolution"
        return (
            f"the {kind} {window} from {s.channels_in} to {s.channels_out} channels {with_end}{how} "
            f"(estimate: {self.first.us:.0f} µs; torch's library: {self.library_us:.0f} µs)"
        )

    def allocated(self, namer: Namer) -> list[str]:
        if not self._stores:
            return []
        shape = ", ".join(namer.host(size) for size in self.conv.out_shape)
        out = namer.host(self.conv.out.node)
        return [f"{out} = torch.empty(({shape}), dtype={self.conv.out.dtype}, device=device)"]

    def printed(self, namer: Namer) -> Printed:
        conv, end = self.conv, self.end
        plan = Source(conv, end, self._pointers(namer), self._is_wide())
        identity = f"{plan.kernel('', self.first.config)}{conv.sizes}{self.first.config}"
        name = namer.kernel(identity, self._wanted())
        config = namer.chosen(name) or self.first.config
        return Printed(
            name,
            {name: plan.kernel(name, config)},
            self._launch(plan, name, namer),
            config,
            KIND,
            offered(self.priced, self.first, config, name),
            end is not None and end.uses_libdevice,
        )

    def _wanted(self) -> str:
        stem = "conv_transpose" if self.conv.call.transposed else "conv"
        stem = f"depthwise_{stem}" if self.conv.depthwise else stem
        words = [f"{stem}{len(self.conv.window)}d"]
        words += [] if self.end is None else [kernel_name(self.end.kernel, ())]
        return "_".join(words)

    def _pointers(self, namer: Namer) -> dict[str, str]:
        """Kernel parameters of the tensors, by role or by the epilogue's own parameter."""
        names = {"x": "x", "weight": "weight"}
        if self.conv.bias is not None:
            names["bias"] = "bias"
        if self.end is None:
            return {**names, "out": "out"}
        for parameter, node in self.end.tensors.items():
            names[parameter] = unique(label(namer.host(node)), names.values())
        return names

    def _launch(self, plan: Source, name: str, namer: Namer) -> list[str]:
        conv = self.conv
        config = namer.chosen(name) or self.first.config
        tensors = [conv.x, conv.weight, *([] if conv.bias is None else [conv.bias])]
        nodes = [operand.node for operand in tensors]
        nodes += [conv.out.node] if self.end is None else list(self.end.tensors.values())
        sizes = self._sizes(namer)
        given = [*map(namer.host, nodes), *(sizes[name] for name in plan.parameters)]
        given += [] if self.end is None else [namer.host(n) for n in self.end.factors.values()]
        given += [f"{block}={size}" for block, size in config.blocks.items()]
        given += [f"num_warps={config.num_warps}", f"num_stages={config.num_stages}"]
        return [f"{name}[({self._grid(sizes, config.blocks, plan)})]({', '.join(given)})"]

    def _sizes(self, namer: Namer) -> dict[str, str]:
        """The host's words for the kernel's sizes."""
        axes = SPATIAL[len(self.conv.window)]
        names = ["n_images", "in_channels", *axes]
        out = ["n_images", "out_channels", *(f"out_{axis}" for axis in axes)]
        nodes = dict(zip(names, self.conv.x_shape, strict=True))
        nodes |= dict(zip(out, self.conv.out_shape, strict=True))
        nodes["groups"] = self.conv.call.groups
        return {name: namer.host(node) for name, node in nodes.items()}

    def _grid(self, sizes: Mapping[str, str], blocks: Mapping[str, int], plan: Source) -> str:
        out = [f"out_{axis}" for axis in SPATIAL[len(self.conv.window)]]
        if self.conv.depthwise:
            rows, cols = ["n_images", "out_channels"], out
        else:
            rows, cols = ["out_channels"], ["n_images", *out]
        across = _divided(_multiplied(sizes, cols), blocks["BLOCK_N"])
        if plan.grouped:
            members = f"{_bracketed(sizes['out_channels'])} // {_bracketed(sizes['groups'])}"
            return f"{_divided(members, blocks['BLOCK_M'])} * {across}, {sizes['groups']}"
        return f"{_divided(_multiplied(sizes, rows), blocks['BLOCK_M'])} * {across},"

    def _is_wide(self) -> bool:
        d = self.conv.full
        s = self.conv.sizes
        elements = s.images * s.channels_in
        for size in s.places_in:
            elements *= size
        return max(elements, d.batch * d.rows * d.cols, d.rows * d.inner) >= _ADDRESSED


def _multiplied(sizes: Mapping[str, str], names: list[str]) -> str:
    return " * ".join(_bracketed(sizes[name]) for name in names)


def _bracketed(text: str) -> str:
    return text if text.isalnum() or text.replace("_", "").isalnum() else f"({text})"


def _divided(text: str, block: int) -> str:
    return f"({text})" if block == 1 else f"triton.cdiv({text}, {block})"
