"""The text of a launch that does the tiles of several products: a function for each kind of tile, and a kernel that
finds out whose tile a program has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.kernels.naming import identifier, label, path_of, unique
from kernelagent.models.compiler.templates import Namer
from kernelagent.models.compiler.templates.matmul.kernel_text import function_of
from kernelagent.models.compiler.templates.matmul.tile_launches import Given, tile_count
from kernelagent.models.compiler.templates.matmul.tile_source import Source


@dataclass(frozen=True)
class Member:
    """One of the products."""

    source: Source
    sizes: Mapping[str, str]
    """The host's words for its rows, columns, inner dimension and batch."""
    wanted: str
    """The name that its kernel would have alone."""


@dataclass(frozen=True)
class _Passed:
    """The launch's parameters: each is given once, whichever products take it."""

    by_text: dict[tuple[str, str], str]
    """Names by what the parameter is for and the host's text."""

    def name(self, parameter: str, text: str) -> str:
        pointer = parameter.endswith("_ptr")
        # A weight has its own name; what layers have between them is called alike, so that they share the kernel.
        weight = pointer and text.startswith("self.")
        wanted = f"{_own_name(text)}_ptr" if weight else parameter
        key = ("_ptr" if pointer else parameter, text)
        if key not in self.by_text:
            self.by_text[key] = unique(wanted, {*self.by_text.values(), "program"})
        return self.by_text[key]


def group_identity(members: Sequence[Member], config: Config, namer: Namer) -> str:
    """Equal for two groups that one kernel serves, which are given the same arguments in the same places."""
    kernels, _ = group_source(members, "", config, namer)
    sizes = [member.source.product.full for member in members]
    return f"{kernels['']}{sizes}{config}"


def group_source(
    members: Sequence[Member], name: str, config: Config, namer: Namer
) -> tuple[dict[str, str], list[str]]:
    """Kernels by name, and the host's line that launches them."""
    tensors, constants = _Passed({}), _Passed({})
    functions: dict[str, str] = {}
    counts: list[str] = []
    branches: list[str] = []
    before: list[str] = []
    grid: list[str] = []
    for number, member in enumerate(members):
        plan, given = member.source, Given.of(member.source, namer, member.sizes)
        texts = [*given.factors, *given.ends, *given.numbers, *given.strides, *given.end_strides]
        parameters = plan.tile_parameters
        passed = list(map(tensors.name, parameters, texts))
        own_texts = [*given.sizes, *given.end_sizes]
        own = list(map(constants.name, plan.tile_constants, own_texts))
        function = namer.kernel(plan.tile_function("", config), f"{member.wanted}_tile")
        functions[function] = plan.tile_function(function, config)
        rows, cols = (passed[parameters.index(size)] for size in ("n_rows", "n_cols"))
        axes = [f"tl.cdiv({rows}, BLOCK_M)", f"tl.cdiv({cols}, BLOCK_N)"]
        if "n_batch" in member.sizes:
            axes.append(tensors.name("n_batch", member.sizes["n_batch"]))
        last = number == len(members) - 1
        if not last:
            counts.append(f"tiles_{number} = {' * '.join(axes)}")
        test = f"program < {' + '.join([*before, f'tiles_{number}'])}"
        branches.append("else:" if last else f"{'elif' if number else 'if'} {test}:")
        index = " - ".join(["program", *before])
        arguments = ", ".join([index, *passed, *own, *plan.blocks(config)])
        branches.append(f"    {function}({arguments})")
        before.append(f"tiles_{number}")
        grid.append(tile_count(plan, member.sizes, config))
    blocks = members[0].source.blocks(config)
    kernel = function_of(
        name,
        list(tensors.by_text.values()),
        [*constants.by_text.values(), *blocks],
        [
            f'"""The tiles of {len(members)} products, in one launch."""',
            "program = tl.program_id(0)",
            *counts,
            *branches,
        ],
    )
    given_texts = [text for _, text in (*tensors.by_text, *constants.by_text)]
    given_texts += [f"{block}={config.blocks[block]}" for block in blocks]
    given_texts += [f"num_warps={config.num_warps}", f"num_stages={config.num_stages}"]
    tiles = namer.local("tiles")
    return {**functions, name: kernel}, [
        *(f"{tiles} {'+' if number else ''}= {count}" for number, count in enumerate(grid)),
        f"{name}[({tiles},)]({', '.join(given_texts)})",
    ]


def _own_name(text: str) -> str:
    """The words of a tensor's path that tell it from the other products': `q_weight`."""
    words = [word for word in path_of(text).split(".")[-2:] if word.isidentifier()]
    return identifier("_".join(words)) if len(words) > 1 else label(text)
