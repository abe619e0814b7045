"""Products that do not need one another, in one launch: their tiles fill the GPU together, and one launch is paid.

The query, key and value of an attention, a gate beside what it gates, heads of different widths: sizes may differ,
and so may what follows each of them. The launch stands where the last of them stood, so that nothing between may
read what an earlier one writes, nor write what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelagent.models.compiler.choices import GROUPED, Config
from kernelagent.models.compiler.program.program import Launch, Program
from kernelagent.models.compiler.templates import Context, Namer, Printed
from kernelagent.models.compiler.templates.layouts import Layouts, arguments_of
from kernelagent.models.compiler.templates.matmul.group_source import (
    Member,
    group_identity,
    group_source,
)
from kernelagent.models.compiler.templates.matmul.pricing import (
    NEARLY,
    Priced,
    fastest_first,
    offered,
    together_us,
)
from kernelagent.models.compiler.templates.matmul.product_site import KIND, ProductSite
from kernelagent.models.compiler.templates.matmul.prologue import reads_what_is_known
from kernelagent.models.compiler.templates.matmul.tile_streams import is_streamed
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

_MOST = 8
"""Products of one launch: each has its loop in the kernel."""
_LOOKED_AT = 12
"""Products after the first that may join it."""


def grouped(
    context: Context, layouts: Layouts, sites: Sequence[ProductSite]
) -> Iterator[ProductSite | GroupSite]:
    """The same products, those in one launch that are faster so by estimate, or as a choice has it."""
    rest = list(sites)
    while rest:
        group = _beginning(context, layouts, rest)
        if group is None:
            yield rest.pop(0)
            continue
        members = group.members
        rest = [site for site in rest if site not in members]
        apart = sum(min(site.first.us, site.library_us) for site in members)
        together = context.chosen.get(group.choice, group.first.us * NEARLY <= apart)
        if together:
            yield group
        else:
            for site in members:
                yield replace(site, options={**site.options, group.choice: False})


def _beginning(
    context: Context, layouts: Layouts, sites: Sequence[ProductSite]
) -> GroupSite | None:
    """The first product with those of the next that can go into one launch with it; None where none can."""
    first, group = sites[0], None
    members, us = [first], first.first.us
    if not _all_is_known(context.program, layouts, first):
        return None
    for site in sites[1 : 1 + _LOOKED_AT]:
        if len(members) == _MOST or not _alike(first, site):
            continue
        more = [*members, site]
        together = _group(more, context.gpu)
        # Whether the last one is better done with the others than alone.
        gains = together.first.us * NEARLY <= us + min(site.first.us, site.library_us)
        if (
            gains
            and _all_is_known(context.program, layouts, site)
            and _independent(context.program, layouts, more)
        ):
            members, group, us = more, together, together.first.us
    return group


def _all_is_known(program: Program, layouts: Layouts, site: ProductSite) -> bool:
    """Whether it is known in which memory all lies that its steps read and write: of others no change is seen."""
    steps = [program.steps[at] for at in site.steps]
    launches = [step for step in steps if isinstance(step, Launch)]
    return all(reads_what_is_known(layouts, arguments_of(program, step)) for step in launches)


def _alike(one: ProductSite, other: ProductSite) -> bool:
    """Whether one configuration serves both."""
    return all(_is_tiled(site) for site in (one, other)) and (
        one.product.left.dtype == other.product.left.dtype
        and (one.product.batch is None) == (other.product.batch is None)
    )


def _is_tiled(site: ProductSite) -> bool:
    dims = site.product.full
    return 1 not in (dims.rows, dims.cols) and (site.end is None or site.end.held is None)


def _independent(program: Program, layouts: Layouts, members: Sequence[ProductSite]) -> bool:
    """Whether all of them may be done where the last one stands."""
    taken = frozenset[int]().union(*(site.steps for site in members))
    at = max(site.at for site in members)
    touched = []
    for site in members:
        steps = [program.steps[step] for step in site.steps]
        read = frozenset[str]().union(*(layouts.read(program, step) for step in steps))
        written = frozenset[str]().union(*(layouts.written(program, step) for step in steps))
        for other in range(min(site.steps) + 1, at):
            step = program.steps[other]
            if other in taken:
                continue
            if layouts.written(program, step) & (read | written):
                return False
            if layouts.read(program, step) & written:
                return False
        touched.append((read, written))
    return not any(
        written & (others_read | others_written)
        for number, (_, written) in enumerate(touched)
        for at_other, (others_read, others_written) in enumerate(touched)
        if number != at_other
    )


def _group(members: Sequence[ProductSite], gpu: DeviceCeilings) -> GroupSite:
    """With its configurations: those of the largest product that leave the inner dimension whole."""
    largest = max(members, key=lambda site: site.product.full.flops)
    products = [site.product for site in members]
    configs = [
        item.config
        for item in largest.priced
        if item.config.blocks["SPLIT_K"] == 1 and not is_streamed(item.config)
    ]
    priced = fastest_first([Priced(c, together_us(products, c, gpu)) for c in configs])
    return GroupSite(tuple(members), priced[0], tuple(priced))


@dataclass(frozen=True)
class GroupSite:
    """Products of one launch."""

    members: tuple[ProductSite, ...]
    first: Priced
    priced: tuple[Priced, ...]

    @property
    def key(self) -> str:
        numbers = [str(site.number) for site in self.members]
        return f"{KIND}s {', '.join(numbers[:-1])} and {numbers[-1]}"

    @property
    def choice(self) -> str:
        """The key of the choice that they share a launch."""
        return f"{GROUPED}{self.key}"

    @property
    def at(self) -> int:
        return max(site.at for site in self.members)

    @property
    def steps(self) -> frozenset[int]:
        return frozenset[int]().union(*(site.steps for site in self.members))

    @property
    def begins(self) -> int:
        return min(site.begins for site in self.members)

    def allocated(self, namer: Namer) -> list[str]:
        return []

    @property
    def tensors(self) -> frozenset[str]:
        return frozenset[str]().union(*(site.tensors for site in self.members))

    @property
    def pays(self) -> bool:
        return self.first.us <= self._library_us

    @property
    def _library_us(self) -> float:
        return sum(site.library_us for site in self.members)

    @property
    def options(self) -> Mapping[str, bool]:
        result = {self.choice: True}
        for site in self.members:
            result |= site.options
        return result

    @property
    def has_library_form(self) -> bool:
        return True

    @property
    def words(self) -> str:
        sizes = [f"{d.rows} × {d.inner} × {d.cols}" for d in (s.product.full for s in self.members)]
        beside = ["with what precedes them"] if any(site.before for site in self.members) else []
        beside += ["with what follows them"] if any(site.end for site in self.members) else []
        around = f"{' and '.join(beside)} " if beside else ""
        return (
            f"the products {', '.join(sizes[:-1])} and {sizes[-1]} in one launch {around}"
            f"(estimate: {self.first.us:.0f} µs; torch's library: {self._library_us:.0f} µs)"
        )

    def printed(self, namer: Namer) -> Printed:
        members = [
            Member(site.source(namer), site.grid_sizes(namer), site.wanted) for site in self.members
        ]
        stem = "matmuls" if self.members[0].product.batch is None else "batched_matmuls"
        identity = group_identity(members, self.first.config, namer)
        name = namer.kernel(identity, stem)
        config: Config = namer.chosen(name) or self.first.config
        kernels, launch = group_source(members, name, config, namer)
        return Printed(
            name,
            kernels,
            launch,
            config,
            KIND,
            offered(self.priced, self.first, config, name),
            any(site.uses_libdevice for site in self.members),
        )
