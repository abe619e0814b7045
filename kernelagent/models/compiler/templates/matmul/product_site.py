"""One matrix product that a kernel of ours does, with what its tiles do before and after it: as a site."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from kernelagent.models.compiler.kernels.naming import kernel_name, label, unique
from kernelagent.models.compiler.program.dataflow import target_of
from kernelagent.models.compiler.templates import Namer, Printed, at_most
from kernelagent.models.compiler.templates.matmul.epilogue import Epilogue
from kernelagent.models.compiler.templates.matmul.factor_source import FactorSource
from kernelagent.models.compiler.templates.matmul.kernel_text import Stride
from kernelagent.models.compiler.templates.matmul.pricing import Priced, how_multiplied, offered
from kernelagent.models.compiler.templates.matmul.products import Operand, Product, Role
from kernelagent.models.compiler.templates.matmul.prologue import Prologue, operand_of
from kernelagent.models.compiler.templates.matmul.tile_launches import parts_source
from kernelagent.models.compiler.templates.matmul.tile_source import RESERVED, Source

KIND = "product"
_ADDRESSED = 1 << 31
"""Elements from which on an offset needs 64 bits."""
_ROUNDED_BY = "as this module's float32_matmul_precision allows"


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
        plan, end = self.source(namer), self.end
        name = namer.kernel(plan.identity(self.first.config), self.wanted)
        config = namer.chosen(name) or self.first.config
        alternatives = offered(self.priced, self.first, config, name)
        sizes = self.grid_sizes(namer)
        kernels, launch = parts_source(plan, name, config, namer, sizes)
        held = None if end is None else end.held
        return Printed(
            name,
            kernels,
            [*(at_most(sizes["n_cols"], held) if held else []), *launch],
            config,
            KIND,
            alternatives,
            self.uses_libdevice,
        )

    @property
    def wanted(self) -> str:
        """A kernel's name that says what it does."""
        product, end = self.product, self.end
        stem = "matmul" if product.batch is None else "batched_matmul"
        words = [] if end is None else [kernel_name(end.kernel, ())]
        if end is None and product.addend is not None:
            words = ["bias"] if _is_bias(product.addend) else ["add"]
        first = [_before(prologue) for prologue in self.before]
        return "_".join([*first, stem, *words])

    @property
    def uses_libdevice(self) -> bool:
        return any(prologue.uses_libdevice for prologue in self.before) or (
            self.end is not None and self.end.uses_libdevice
        )

    def source(self, namer: Namer) -> Source:
        """Its kernels' text, but for the configuration."""
        names = self._pointers(namer)
        strides = self._strides(namer, names)
        computed = self._computed(namer, names)
        return Source(self.product, self.end, names, strides, self._is_wide(), computed)

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

    def grid_sizes(self, namer: Namer) -> dict[str, str]:
        """The host's words for the kernel's sizes."""
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
