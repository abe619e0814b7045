"""The backward of attention: the template's matching and its host side. `gradient_source` prints the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.refusal import AttentionUnknown
from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.templates import Context, Namer, Printed
from kernelagent.models.compiler.templates.attention.attend import (
    ROUNDED_BY,
    described,
    kernel_name,
)
from kernelagent.models.compiler.templates.attention.attentions import Gradient, gradients
from kernelagent.models.compiler.templates.attention.gradient_pricing import ranked
from kernelagent.models.compiler.templates.attention.gradient_source import GradientSource
from kernelagent.models.compiler.templates.attention.hosting import (
    addresses_of,
    allocated,
    grid,
    launch,
    result_names,
)
from kernelagent.models.compiler.templates.layouts import Layouts
from kernelagent.models.compiler.templates.matmul.pricing import (
    Priced,
    how_multiplied,
    offered,
    precisions,
)
from kernelagent.tools.calls.float32_precision import matmul_precision

KIND = "attention gradient"


class AttentionGradients:
    """The template: see `templates.Template`."""

    def sites(self, context: Context) -> Iterator[GradientSite]:
        layouts = Layouts(context.captured, context.program)
        every = gradients(context.program, layouts, context.sizes, context.what)
        for number, (at, gradient) in enumerate(every):
            asked = precisions(gradient.attention.query.dtype, matmul_precision())
            priced = [item for how in asked for item in ranked(gradient, how, context.gpu)]
            if not priced:
                raise AttentionUnknown(context.what)
            yield GradientSite(number, at, gradient, tuple(priced))


@dataclass(frozen=True)
class GradientSite:
    """The gradient of an attention's queries, or those of its keys and values."""

    number: int
    at: int
    gradient: Gradient
    priced: tuple[Priced, ...]

    @property
    def key(self) -> str:
        return f"{KIND} {self.number}"

    @property
    def steps(self) -> frozenset[int]:
        return self.gradient.attention.steps

    @property
    def begins(self) -> int:
        return self.at

    @property
    def tensors(self) -> frozenset[str]:
        return self.gradient.attention.tensors | self.gradient.read

    @property
    def first(self) -> Priced:
        return min(self.priced, key=lambda item: item.us)

    @property
    def pays(self) -> bool:
        return True

    @property
    def has_library_form(self) -> bool:
        return False

    @property
    def options(self) -> Mapping[str, bool]:
        return {}

    @property
    def words(self) -> str:
        how = how_multiplied(self.first.config.precision, ROUNDED_BY)
        what = "queries" if self.gradient.call.of_query else "keys and values"
        return (
            f"the gradient of the {what} of {described(self.gradient.attention)}, with the weights computed again, {how} "
            f"(estimate: {self.first.us:.0f} µs)"
        )

    def allocated(self, namer: Namer) -> list[str]:
        attention = self.gradient.attention
        batch, heads, queries, value_dims = (namer.host(size) for size in attention.shape)
        shared, keys, dims = map(
            namer.host, (attention.shared_heads, attention.keys, attention.dims)
        )
        shapes = [(batch, heads, queries, dims)]
        if not self.gradient.call.of_query:
            shapes = [(batch, shared, keys, dims), (batch, shared, keys, value_dims)]
        dtype = attention.query.dtype
        return [
            allocated(name, shape, dtype)
            for name, shape in zip(self._results(namer), shapes, strict=True)
        ]

    def printed(self, namer: Namer) -> Printed:
        gradient, attention = self.gradient, self.gradient.attention
        more = {"upstream": gradient.upstream}
        addresses = addresses_of(attention, more, namer, values_as_columns=True)
        plan = GradientSource(addresses, gradient.call.of_query)
        identity = f"{plan.kernel('', self.first.config)}{attention.full}{self.first.config}"
        what = "query_gradient" if gradient.call.of_query else "key_value_gradients"
        name = namer.kernel(identity, kernel_name(attention, f"attention_{what}"))
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

    def _launch(self, plan: GradientSource, name: str, chosen: Config, namer: Namer) -> list[str]:
        gradient, attention = self.gradient, self.gradient.attention
        batch, heads, queries, _ = (namer.host(size) for size in attention.shape)
        parts = (*gradient.parts, gradient.rows, gradient.delta)
        tensors = [*(namer.host(part.node) for part in parts), *self._results(namer)]
        on = grid(queries, chosen.blocks["BLOCK_M"], batch, heads)
        if not gradient.call.of_query:
            keys, shared = map(namer.host, (attention.keys, attention.shared_heads))
            on = grid(keys, chosen.blocks["BLOCK_N"], batch, shared)
        return launch(plan.addresses, tensors, on, (name, chosen), namer)

    def _results(self, namer: Namer) -> list[str]:
        of_query = self.gradient.call.of_query
        unread = ("grad_queries",) if of_query else ("grad_keys", "grad_values")
        return result_names(self.gradient.attention, unread, namer)
