"""Matrix products, single and batched, with what precedes and follows them: the template's matching and its host side.

`tile_source` prints the kernels. A product that torch's library is estimated to do faster, with
whatever must follow it, is left to the library unless a turn asks otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelagent.models.compiler.choices import PRECEDES
from kernelagent.models.compiler.templates import Context, Site
from kernelagent.models.compiler.templates.layouts import Layouts
from kernelagent.models.compiler.templates.matmul.epilogue import Epilogue, epilogue_of
from kernelagent.models.compiler.templates.matmul.grouped import grouped
from kernelagent.models.compiler.templates.matmul.pricing import (
    NEARLY,
    STREAM_GAIN,
    Priced,
    filling_us,
    library_us,
    precisions,
    ranked,
    round_trip_us,
)
from kernelagent.models.compiler.templates.matmul.product_site import KIND, ProductSite
from kernelagent.models.compiler.templates.matmul.products import (
    ROLES,
    Product,
    products,
)
from kernelagent.models.compiler.templates.matmul.prologue import Prologue, prologue_of
from kernelagent.models.compiler.templates.matmul.tile_streams import is_streamed
from kernelagent.tools.calls.float32_precision import matmul_precision
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings


class Products:
    """The template: see `templates.Template`."""

    def sites(self, context: Context) -> Iterator[Site]:
        layouts = Layouts(context.captured, context.program)
        taken: set[int] = set()
        every = products(context.program, layouts, context.sizes, context.what)
        sites = []
        for number, product in enumerate(every):
            site = site_of(context, layouts, number, product, frozenset(taken))
            taken |= site.steps
            sites.append(site)
        yield from grouped(context, layouts, sites)


def site_of(
    context: Context,
    layouts: Layouts,
    number: int,
    product: Product,
    taken: frozenset[int] = frozenset(),
) -> ProductSite:
    """One product with what precedes and follows it, less the steps that are taken."""
    key = f"{PRECEDES}{KIND} {number}"
    found = (prologue_of(context, layouts, product, role) for role in ROLES)
    before = tuple(p for p in found if p is not None and p.at not in taken)
    alone = _planned(context, layouts, product, (), taken)
    if not before:
        return _site(context, number, product, alone, {}, layouts)
    filled = replace(product, fillings={p.role: p.filling for p in before})
    fused = _planned(context, layouts, filled, before, taken)
    saved = _saved_us(filled, fused, context.gpu)
    over = any(product.out.storage in prologue.storages for prologue in before)
    if fused.end is None and (over or alone.end is not None):
        # Tiles would write over what others still read.
        return _site(context, number, product, alone, {}, layouts)
    inside = context.chosen.get(key, fused.first.us * NEARLY <= alone.first.us + saved)
    plan, own = (fused, filled) if inside else (alone, product)
    return _site(context, number, own, plan, {key: inside}, layouts)


@dataclass(frozen=True)
class _Plan:
    """What a product's tiles do beside it, and the configurations for that by estimate."""

    before: tuple[Prologue, ...]
    end: Epilogue | None
    first: Priced
    priced: tuple[Priced, ...]


def _planned(
    context: Context,
    layouts: Layouts,
    product: Product,
    before: tuple[Prologue, ...],
    taken: frozenset[int],
) -> _Plan:
    also = frozenset[str]().union(*(prologue.storages for prologue in before))
    end = epilogue_of(context, layouts, product, also)
    if end is not None and end.at in taken:
        end = None
    held = None if end is None else end.held
    priced = [
        item
        for precision in precisions(product.left.dtype, matmul_precision())
        for item in ranked(product, precision, held, context.gpu)
    ]
    return _Plan(before, end, _first(priced), tuple(priced))


def _first(priced: Sequence[Priced]) -> Priced:
    """The fastest by estimate, or a simpler one that is nearly as fast."""
    whole = [item for item in priced if not is_streamed(item.config)]
    streams = [item for item in priced if is_streamed(item.config)]
    usual = min(whole, key=lambda item: item.us)
    shared = min(streams, key=lambda item: item.us, default=usual)
    if shared.us * STREAM_GAIN <= usual.us:
        return shared
    return next(item for item in whole if item.us <= usual.us * NEARLY)


def _site(
    context: Context,
    number: int,
    product: Product,
    plan: _Plan,
    options: Mapping[str, bool],
    layouts: Layouts,
) -> ProductSite:
    gpu, end = context.gpu, plan.end
    theirs = library_us(product, gpu, rounds=matmul_precision() != "highest")
    theirs += _saved_us(product, plan, gpu)
    theirs += round_trip_us(product, gpu) if end is not None else 0.0
    reached = frozenset[str]() if end is None else layouts.storages(_tuple_of(end.tensors))
    return ProductSite(
        number, product, end, plan.first, plan.priced, theirs, reached, plan.before, options
    )


def _saved_us(product: Product, plan: _Plan, gpu: DeviceCeilings) -> float:
    """Of the launches before it."""
    return sum(filling_us(product, prologue.role, gpu) for prologue in plan.before)


def _tuple_of(tensors: Mapping[str, ast.expr]) -> ast.expr:
    return ast.Tuple(list(tensors.values()), ast.Load())
