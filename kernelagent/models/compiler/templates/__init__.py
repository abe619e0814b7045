"""Kernels of ours that the policy instantiates for what torch's libraries compute; a file a family.

A template looks at a captured program and proposes sites: steps that a kernel of ours could do, with
what stands around them. The writer asks each site that is used for its kernels and its launches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from kernelagent.models.compiler.capturing.capture import Captured
from kernelagent.models.compiler.choices import Alternative, Config
from kernelagent.models.compiler.module.limits import raising
from kernelagent.models.compiler.program.program import Program
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

Values = Mapping[str, int]
"""Numbers by the names of sizes."""


@dataclass(frozen=True)
class Context:
    """What a template may look at."""

    captured: Captured
    program: Program
    sizes: tuple[Values, Values]
    """Every named size, at the user's sizes and at those that are executed."""
    gpu: DeviceCeilings
    what: str
    """The module's class, for messages."""
    chosen: Mapping[str, bool] = field(default_factory=dict)
    """What is to be otherwise than a site has it: see `Site.options`."""


@dataclass(frozen=True)
class Printed:
    """A site as source."""

    name: str
    """The kernel that has the configuration."""
    kernels: Mapping[str, str]
    """Definitions by name, in the order in which they stand in the file."""
    launch: Sequence[str]
    """Lines of the host."""
    config: Config
    kind: str
    alternatives: Sequence[Alternative]
    """Other configurations, the most promising by estimate first."""
    uses_libdevice: bool


def at_most(size: str, most: int) -> list[str]:
    """Lines of the host that refuse a longer axis than a tile holds; none where its length is a number."""
    return [] if size.isdigit() else raising(f"{size} > {most}", f"{size} may be {most} at most")


class Namer(Protocol):
    """How the file that is being written spells and names things."""

    def host(self, node: ast.expr) -> str:
        """A size, a tensor or a view as the host spells it."""
        ...

    def kernel(self, text: str, wanted: str) -> str:
        """The kernel's name: `wanted` or one like it, and that of the kernel with the same text."""
        ...

    def local(self, name: str) -> str:
        """A variable that nothing else in the method has."""
        ...

    def chosen(self, name: str) -> Config | None:
        """The configuration that is to be tried for this kernel; None for the usual."""
        ...


class Site(Protocol):
    """Steps of a program that a template can take over."""

    @property
    def key(self) -> str:
        """Names the site within its program, for choices."""
        ...

    @property
    def at(self) -> int:
        """The step in whose place it stands."""
        ...

    @property
    def steps(self) -> frozenset[int]:
        """All that it takes over."""
        ...

    @property
    def begins(self) -> int:
        """The step before which what it makes is allocated."""
        ...

    @property
    def has_library_form(self) -> bool:
        """Whether torch could be left to do it; otherwise it is always taken over."""
        ...

    def allocated(self, namer: Namer) -> Sequence[str]:
        """Lines of the host that allocate what no step of the program does."""
        ...

    @property
    def tensors(self) -> frozenset[str]:
        """Storages of the program that it reads or writes."""
        ...

    @property
    def pays(self) -> bool:
        """By estimate it takes no longer than what it replaces."""
        ...

    @property
    def options(self) -> Mapping[str, bool]:
        """What it does in one of two ways, by key: whether in its own tiles."""
        ...

    @property
    def words(self) -> str:
        """One sentence: what it is, and the estimate on both sides."""
        ...

    def printed(self, namer: Namer) -> Printed:
        """The site in the file's names."""
        ...


class Template(Protocol):
    """One family of kernels."""

    def sites(self, context: Context) -> Iterator[Site]:
        """What it could take over, in the order of the steps; no two share a step."""
        ...


TEMPLATES: Mapping[str, str] = {
    "product": "kernelagent.models.compiler.templates.matmul.gemm:Products",
    "convolution": "kernelagent.models.compiler.templates.convolution.conv:Convolutions",
    "pooling": "kernelagent.models.compiler.templates.pooling.pool:Poolings",
    "attention": "kernelagent.models.compiler.templates.attention.attend:Attentions",
    "attention gradient": "kernelagent.models.compiler.templates.attention.attend_gradient:AttentionGradients",
    "recurrence": "kernelagent.models.compiler.templates.recurrent.recur:Recurrences",
}
"""Families by name; the first that wants a step has it."""


def sites_of(context: Context) -> list[Site]:
    """The sites of every family, without overlaps, in the order in which they stand."""
    taken: set[int] = set()
    result: list[Site] = []
    for place in TEMPLATES.values():
        module, _, name = place.partition(":")
        template: Template = getattr(import_module(module), name)()
        for site in template.sites(context):
            if not site.steps & taken:
                taken |= site.steps
                result.append(site)
    return sorted(result, key=lambda site: site.at)
