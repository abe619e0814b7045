"""Attention: the template's matching and its host side.

`attention_source` prints the kernel. An attention that torch's own kernels are estimated to do faster is
left to them unless a turn asks otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.refusal import AttentionUnknown
from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.templates import Context, Namer, Printed, Site
from kernelagent.models.compiler.templates.attention.attention_pricing import library_us, ranked
from kernelagent.models.compiler.templates.attention.attention_source import Source
from kernelagent.models.compiler.templates.attention.attentions import Attention, attentions
from kernelagent.models.compiler.templates.attention.hosting import (
    addresses_of,
    allocated,
    grid,
    launch,
    result_names,
)
from kernelagent.models.compiler.templates.layouts import Layouts
from kernelagent.models.compiler.templates.matmul.pricing import (
    NEARLY,
    Priced,
    how_multiplied,
    offered,
    precisions,
)
from kernelagent.tools.calls.float32_precision import matmul_precision
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

KIND = "attention"
ROUNDED_BY = "as this module's float32_matmul_precision allows"


class Attentions:
    """The template: see `templates.Template`."""

    def sites(self, context: Context) -> Iterator[Site]:
        layouts = Layouts(context.captured, context.program)
        every = attentions(context.program, layouts, context.sizes, context.what)
        for number, attention in enumerate(every):
            site = _site(number, attention, context.gpu, context.what)
            if site is not None:
                yield site


def _site(
    number: int, attention: Attention, gpu: DeviceCeilings, what: str
) -> AttentionSite | None:
    asked = precisions(attention.query.dtype, matmul_precision())
    priced = [item for precision in asked for item in ranked(attention, precision, gpu)]
    if not priced:
        # A head that is too long for any tile.
        if attention.keeps_rows:
            raise AttentionUnknown(what)
        return None
    usual = min(priced, key=lambda item: item.us)
    first = next(item for item in priced if item.us <= usual.us * NEARLY)
    return AttentionSite(number, attention, first, tuple(priced), library_us(attention, gpu))


@dataclass(frozen=True)
class AttentionSite:
    """One attention."""

    number: int
    attention: Attention
    first: Priced
    priced: tuple[Priced, ...]
    library_us: float

    @property
    def key(self) -> str:
        return f"{KIND} {self.number}"

    @property
    def at(self) -> int:
        return self.attention.at

    @property
    def steps(self) -> frozenset[int]:
        return self.attention.steps

    @property
    def begins(self) -> int:
        return self.at

    @property
    def tensors(self) -> frozenset[str]:
        return self.attention.tensors

    @property
    def pays(self) -> bool:
        return self.first.us <= self.library_us

    @property
    def has_library_form(self) -> bool:
        return not self.attention.keeps_rows

    @property
    def options(self) -> Mapping[str, bool]:
        return {}

    @property
    def words(self) -> str:
        how = how_multiplied(self.first.config.precision, ROUNDED_BY)
        what = described(self.attention)
        return f"{what} {how} (estimate: {self.first.us:.0f} µs; torch's own: {self.library_us:.0f} µs)"

    def allocated(self, namer: Namer) -> list[str]:
        attention = self.attention
        out, *rows = self._results(namer)
        shape = [namer.host(size) for size in attention.shape]
        lines = [allocated(out, shape, attention.query.dtype)]
        for name in rows:
            size = ", ".join([*shape[:3], "2"])
            lines.append(f"{name} = torch.empty(({size}), dtype=torch.float32, device=device)")
        return lines

    def printed(self, namer: Namer) -> Printed:
        attention = self.attention
        plan = Source(addresses_of(attention, {}, namer))
        identity = f"{plan.kernel('', self.first.config)}{attention.full}{self.first.config}"
        name = namer.kernel(identity, kernel_name(attention, "attention"))
        config = namer.chosen(name) or self.first.config
        return Printed(
            name,
            {name: plan.kernel(name, config)},
            self._launch(plan, name, config, namer),
            config,
            KIND,
            offered(self.priced, self.first, config, name),
            False,
        )

    def _launch(self, plan: Source, name: str, chosen: Config, namer: Namer) -> list[str]:
        attention = self.attention
        batch, heads, queries, _ = (namer.host(size) for size in attention.shape)
        tensors = [*(namer.host(part.node) for part in attention.parts), *self._results(namer)]
        on = grid(queries, chosen.blocks["BLOCK_M"], batch, heads)
        return launch(plan.addresses, tensors, on, (name, chosen), namer)

    def _results(self, namer: Namer) -> list[str]:
        unread = ("values", "rows") if self.attention.keeps_rows else ("values",)
        return result_names(self.attention, unread, namer)


def described(attention: Attention) -> str:
    """What it is, with its sizes, in words."""
    s = attention.full
    kind = "causal attention" if attention.call.causal else "attention"
    return f"the {kind} of {s.queries} queries over {s.keys} keys in {s.heads} heads of {s.dims}"


def kernel_name(attention: Attention, what: str) -> str:
    """`causal_masked_attention`, for the kernel that does `what`."""
    causal = "causal_" if attention.call.causal else ""
    masked = "masked_" if attention.mask is not None else ""
    return f"{causal}{masked}{what}"
