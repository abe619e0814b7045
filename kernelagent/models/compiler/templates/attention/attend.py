"""Attention: the template's matching and its host side.

`attention_source` prints the kernel. An attention that torch's own kernels are estimated to do faster is
left to them unless a turn asks otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.templates import Context, Namer, Printed, Site, at_most
from kernelagent.models.compiler.templates.attention.attention_pricing import library_us, ranked
from kernelagent.models.compiler.templates.attention.attention_source import LOG2_E, Source
from kernelagent.models.compiler.templates.attention.attentions import Attention, attentions
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
_ADDRESSED = 1 << 31
"""Elements from which on an offset needs 64 bits."""
_ROUNDED_BY = "as this module's float32_matmul_precision allows"


class Attentions:
    """The template: see `templates.Template`."""

    def sites(self, context: Context) -> Iterator[Site]:
        layouts = Layouts(context.captured, context.program)
        every = attentions(context.program, layouts, context.sizes, context.what)
        for number, attention in enumerate(every):
            site = _site(number, attention, context.gpu)
            if site is not None:
                yield site


def _site(number: int, attention: Attention, gpu: DeviceCeilings) -> AttentionSite | None:
    asked = precisions(attention.query.dtype, matmul_precision())
    priced = [item for precision in asked for item in ranked(attention, precision, gpu)]
    if not priced:
        # A head that is too long for any tile.
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
        return frozenset({self.at})

    @property
    def begins(self) -> int:
        return self.at

    @property
    def tensors(self) -> frozenset[str]:
        parts = (*self.attention.parts, self.attention.out)
        return frozenset(part.storage for part in parts)

    @property
    def pays(self) -> bool:
        return self.first.us <= self.library_us

    @property
    def has_library_form(self) -> bool:
        return True

    @property
    def words(self) -> str:
        s = self.attention.full
        how = how_multiplied(self.first.config.precision, _ROUNDED_BY)
        kind = "causal attention" if self.attention.call.causal else "attention"
        return (
            f"the {kind} of {s.queries} queries over {s.keys} keys in {s.heads} heads of {s.dims} {how} "
            f"(estimate: {self.first.us:.0f} µs; torch's own: {self.library_us:.0f} µs)"
        )

    def allocated(self, namer: Namer) -> list[str]:
        batch, heads, queries, dims = (namer.host(size) for size in self.attention.shape)
        out = namer.host(self.attention.out.node)
        dtype = self.attention.out.dtype
        shape = f"({batch}, {queries}, {heads}, {dims})"
        return [
            f"{out} = torch.empty({shape}, dtype={dtype}, device=device).transpose(1, 2)",
        ]

    def printed(self, namer: Namer) -> Printed:
        attention = self.attention
        words = {"query": attention.query, "key": attention.key, "value": attention.value}
        if attention.mask is not None:
            words["mask"] = attention.mask
        strides = {role: [namer.host(n) for n in part.strides] for role, part in words.items()}
        plan = Source(attention, strides, self._is_wide())
        identity = f"{plan.kernel('', self.first.config)}{attention.full}{self.first.config}"
        name = namer.kernel(identity, self._wanted())
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

    def _wanted(self) -> str:
        causal = "causal_" if self.attention.call.causal else ""
        masked = "masked_" if self.attention.mask is not None else ""
        return f"{causal}{masked}attention"

    def _launch(self, plan: Source, name: str, chosen: Config, namer: Namer) -> list[str]:
        attention = self.attention
        batch, heads, queries, value_dims = (namer.host(size) for size in attention.shape)
        dims = namer.host(attention.dims)
        sizes = {
            "n_heads": heads,
            "n_shared_heads": namer.host(attention.shared_heads),
            "n_queries": queries,
            "n_keys": namer.host(attention.keys),
            "n_dims": dims,
            "n_value_dims": value_dims,
        }
        given = [namer.host(part.node) for part in (*attention.parts, attention.out)]
        given += [sizes[size] for size in plan.sizes]
        given += [self._scale(namer, dims, plan.power), *plan.parameters.values()]
        given += [f"{block}={size}" for block, size in chosen.blocks.items()]
        given += [f"num_warps={chosen.num_warps}", f"num_stages={chosen.num_stages}"]
        grid = f"triton.cdiv({queries}, {chosen.blocks['BLOCK_M']}), {_factor(batch)} * {_factor(heads)}"
        tiles = ((dims, "BLOCK_D"), (value_dims, "BLOCK_E"))
        limits = [line for size, block in tiles for line in at_most(size, chosen.blocks[block])]
        return [*dict.fromkeys(limits), f"{name}[({grid})]({', '.join(given)})"]

    def _scale(self, namer: Namer, dims: str, power: str) -> str:
        """For powers of two with the logarithm of e in it."""
        scale = self.attention.call.scale
        text = f"{_factor(dims)} ** -0.5" if scale is None else _factor(namer.host(scale))
        return f"{text} * {LOG2_E}" if power == "exp2" else text

    def _is_wide(self) -> bool:
        s = self.attention.full
        most = max(s.heads * s.queries * s.dims, s.heads * s.keys * max(s.dims, s.value_dims))
        return 3 * s.batch * max(most, s.heads * s.queries * s.value_dims) >= _ADDRESSED


def _factor(text: str) -> str:
    return text if text.replace("_", "").replace(".", "").isalnum() else f"({text})"
