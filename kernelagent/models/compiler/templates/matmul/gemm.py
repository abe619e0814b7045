"""Matrix products, single and batched, with what precedes and follows them: the template's matching and its host side.

`tile_source` prints the kernels. A product that torch's library is estimated to do faster, with
whatever must follow it, is left to the library unless a turn asks otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelagent.models.compiler.choices import PRECEDES
from kernelagent.models.compiler.kernels.naming import kernel_name, label, unique
from kernelagent.models.compiler.program.dataflow import target_of
from kernelagent.models.compiler.templates import Context, Namer, Printed, Site, at_most
from kernelagent.models.compiler.templates.layouts import Layouts
from kernelagent.models.compiler.templates.matmul.epilogue import Epilogue, epilogue_of
from kernelagent.models.compiler.templates.matmul.factor_source import FactorSource
from kernelagent.models.compiler.templates.matmul.kernel_text import Stride
from kernelagent.models.compiler.templates.matmul.pricing import (
    NEARLY,
    STREAM_GAIN,
    Priced,
    filling_us,
    how_multiplied,
    library_us,
    offered,
    precisions,
    ranked,
    round_trip_us,
)
from kernelagent.models.compiler.templates.matmul.products import (
    ROLES,
    Operand,
    Product,
    Role,
    products,
)
from kernelagent.models.compiler.templates.matmul.prologue import (
    Prologue,
    operand_of,
    prologue_of,
)
from kernelagent.models.compiler.templates.matmul.tile_launches import parts_source
from kernelagent.models.compiler.templates.matmul.tile_source import RESERVED, Source
from kernelagent.models.compiler.templates.matmul.tile_streams import is_streamed
from kernelagent.tools.calls.float32_precision import matmul_precision
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

KIND = "product"
_ADDRESSED = 1 << 31
"""Elements from which on an offset needs 64 bits."""
_ROUNDED_BY = "as this module's float32_matmul_precision allows"


class Products:
    """The template: see `templates.Template`."""

    def sites(self, context: Context) -> Iterator[Site]:
        layouts = Layouts(context.captured, context.program)
        taken: set[int] = set()
        every = products(context.program, layouts, context.sizes, context.what)
        for number, product in enumerate(every):
            site = site_of(context, layouts, number, product, frozenset(taken))
            taken |= site.steps
            yield site


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


@dataclass(frozen=True)
class ProductSite:
    """One product and what its tiles do after it."""

    number: int
    product: Product
    end: Epilogue | None
    first: Priced
    priced: tuple[Priced, ...]
    library_us: float
    """Of torch's product, of the round trip that an epilogue saves, and of the launches that prologues save."""
    reached: frozenset[str]
    """Storages that the epilogue reads or writes."""
    before: tuple[Prologue, ...]
    options: Mapping[str, bool]

    @property
    def key(self) -> str:
        return f"{KIND} {self.number}"

    @property
    def at(self) -> int:
        return self.product.at if self.end is None else self.end.at

    @property
    def steps(self) -> frozenset[int]:
        return frozenset({self.product.at, self.at, *(prologue.at for prologue in self.before)})

    @property
    def begins(self) -> int:
        return self.product.at

    def allocated(self, namer: Namer) -> list[str]:
        return []

    @property
    def tensors(self) -> frozenset[str]:
        computed = {operand_of(self.product, prologue.role).storage for prologue in self.before}
        own = {operand.storage for operand in self.product.operands} - computed
        out = {self.product.out.storage} if self.end is None else set()
        read = frozenset[str]().union(*(prologue.storages for prologue in self.before))
        return frozenset(own | out | self.reached | read)

    @property
    def pays(self) -> bool:
        return self.first.us <= self.library_us

    @property
    def has_library_form(self) -> bool:
        return True

    @property
    def words(self) -> str:
        d = self.product.full
        batch = f"{d.batch} × " if self.product.batch is not None else ""
        how = how_multiplied(self.first.config.precision, _ROUNDED_BY)
        if 1 in (d.rows, d.cols):
            how = "as sums of products, because one side is a vector"
        beside = ["with what precedes it"] if self.before else []
        beside += ["with what follows it"] if self.end is not None else []
        around = f"{' and '.join(beside)} " if beside else ""
        return (
            f"the product {batch}{d.rows} × {d.inner} × {d.cols} {around}{how} "
            f"(estimate: {self.first.us:.0f} µs; torch's library: {self.library_us:.0f} µs)"
        )

    def printed(self, namer: Namer) -> Printed:
        product, end = self.product, self.end
        stem = "matmul" if product.batch is None else "batched_matmul"
        words = [] if end is None else [kernel_name(end.kernel, ())]
        if end is None and product.addend is not None:
            words = ["bias"] if _is_bias(product.addend) else ["add"]
        first = [_before(prologue) for prologue in self.before]
        wanted = "_".join([*first, stem, *words])
        names = self._pointers(namer)
        strides = self._strides(namer, names)
        plan = Source(product, end, names, strides, self._is_wide(), self._computed(namer, names))
        name = namer.kernel(plan.identity(self.first.config), wanted)
        config = namer.chosen(name) or self.first.config
        alternatives = offered(self.priced, self.first, config, name)
        sizes = self._grid_sizes(namer)
        kernels, launch = parts_source(plan, name, config, namer, sizes)
        held = None if end is None else end.held
        return Printed(
            name,
            kernels,
            [*(at_most(sizes["n_cols"], held) if held else []), *launch],
            config,
            KIND,
            alternatives,
            any(prologue.uses_libdevice for prologue in self.before)
            or (end is not None and end.uses_libdevice),
        )

    def _computed(self, namer: Namer, names: Mapping[str, str]) -> dict[Role, FactorSource]:
        """The factors that its tiles compute, in the kernel's names."""
        result: dict[Role, FactorSource] = {}
        pointers, variables = set(names.values()), set(names.values())
        for prologue in self.before:
            given: dict[str, str] = {}
            for parameter, node in prologue.tensors.items():
                given[parameter] = unique(label(namer.host(node)), pointers)
                pointers.add(given[parameter])
            source = FactorSource(
                prologue,
                names[prologue.role],
                operand_of(self.product, prologue.role).dtype,
                given,
                self.product.batch is not None,
                RESERVED | variables,
            )
            result[prologue.role] = source
            variables |= set(source.locals)
        return result

    def _pointers(self, namer: Namer) -> dict[str, str]:
        """Kernel parameters of the tensors, by role or by the epilogue's own parameter."""
        product = self.product
        computed = {prologue.role for prologue in self.before}
        linear = product.right.given == "parameter"
        names = {"left": "x" if linear else "a", "right": "weight" if linear else "b"}
        names |= {role: role for role in computed}
        if product.addend is not None:
            names["addend"] = "bias" if _is_bias(product.addend) else "addend"
        if self.end is None:
            names["out"] = "out"
            return names
        for parameter, node in self.end.tensors.items():
            names[parameter] = unique(label(namer.host(node)), names.values())
        return names

    def _strides(self, namer: Namer, names: Mapping[str, str]) -> dict[str, Stride]:
        """Strides of each operand by role, in the words of the kernel where its sizes say them."""
        product = self.product
        rows, cols, inner = (namer.host(n) for n in (product.rows, product.cols, product.inner))
        result = {"row": {cols: "n_cols"}, "col": {rows: "n_rows"}}
        words = {
            "left": {"row": {inner: "n_inner"}, "col": {rows: "n_rows"}},
            "right": {"row": {cols: "n_cols"}, "col": {inner: "n_inner"}},
            "addend": result,
            "out": result,
        }
        strides: dict[str, Stride] = {}
        for role, known in words.items():
            operand: Operand | None = getattr(product, role)
            if operand is None or (role == "out" and self.end is not None):
                continue
            if any(prologue.role == role for prologue in self.before):
                continue
            texts = [namer.host(node) for node in (operand.batch, operand.rows, operand.cols)]
            strides[role] = Stride.of(names[role], texts, known)
        return strides

    def _grid_sizes(self, namer: Namer) -> dict[str, str]:
        product = self.product
        sizes = {"n_rows": product.rows, "n_cols": product.cols, "n_inner": product.inner}
        texts = {name: namer.host(node) for name, node in sizes.items()}
        if product.batch is not None:
            texts["n_batch"] = namer.host(product.batch)
        return texts

    def _is_wide(self) -> bool:
        d = self.product.full
        most = max(d.rows * d.inner, d.inner * d.cols, d.rows * d.cols) * d.batch
        return most >= _ADDRESSED or any(map(_counts_in_64_bits, self.before))


def _counts_in_64_bits(prologue: Prologue) -> bool:
    """Whether its elements had to be numbered so: what it reads may be a part of something larger."""
    numbered = [s for s in prologue.kernel.function.body if target_of(s) in ("xoffset", "xindex")]
    return any("tl.int64" in ast.unparse(statement) for statement in numbered)


def _before(prologue: Prologue) -> str:
    name = kernel_name(prologue.kernel, ())
    return "cast" if name == "copy" else name


def _is_bias(addend: Operand) -> bool:
    return ast.unparse(addend.rows) == "0" and ast.unparse(addend.batch) == "0"
