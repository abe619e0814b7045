"""What the host does for the kernels of attentions: results, strides, sizes and the scale as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.templates import Namer, at_most
from kernelagent.models.compiler.templates.attention.addressing import Addresses
from kernelagent.models.compiler.templates.attention.attentions import Attention, Part

LOG2_E = "1.4426950408889634"
_ADDRESSED = 1 << 31
"""Elements from which on an offset needs 64 bits."""


def addresses_of(
    attention: Attention, more: Mapping[str, Part], namer: Namer, *, values_as_columns: bool = False
) -> Addresses:
    """How the kernel finds its tensors; `more`: those that it reads beside the attention's own."""
    parts = {"query": attention.query, "key": attention.key, "value": attention.value}
    if attention.mask is not None:
        parts["mask"] = attention.mask
    strides = {
        role: [namer.host(n) for n in part.strides] for role, part in {**parts, **more}.items()
    }
    return Addresses(attention, strides, _is_wide(attention), values_as_columns)


def launch(
    addresses: Addresses,
    tensors: Sequence[str],
    on: str,
    named: tuple[str, Config],
    namer: Namer,
) -> list[str]:
    """Lines that launch a kernel on a grid. `named`: the kernel with its configuration."""
    name, config = named
    given = [*tensors, *_sizes(addresses, namer), _scale(addresses, namer)]
    given += addresses.parameters.values()
    given += [f"{block}={size}" for block, size in config.blocks.items()]
    given += [f"num_warps={config.num_warps}", f"num_stages={config.num_stages}"]
    lines = _limits(addresses.attention, config, namer)
    return [*lines, f"{name}[({on})]({', '.join(given)})"]


def grid(length: str, block: int, batch: str, heads: str) -> str:
    """Programs for each tile of an axis, for each head of each batch."""
    return f"triton.cdiv({length}, {block}), {_factor(batch)} * {_factor(heads)}"


def _sizes(addresses: Addresses, namer: Namer) -> list[str]:
    """What the host passes for the kernel's sizes."""
    attention = addresses.attention
    _, heads, queries, value_dims = (namer.host(size) for size in attention.shape)
    words = {
        "n_heads": heads,
        "n_shared_heads": namer.host(attention.shared_heads),
        "n_queries": queries,
        "n_keys": namer.host(attention.keys),
        "n_dims": namer.host(attention.dims),
        "n_value_dims": value_dims,
    }
    return [words[size] for size in addresses.sizes]


def _scale(addresses: Addresses, namer: Namer) -> str:
    """What scores are multiplied by; for powers of two with the logarithm of e in it."""
    attention = addresses.attention
    scale = attention.call.scale
    dims = namer.host(attention.dims)
    text = f"{_factor(dims)} ** -0.5" if scale is None else _factor(namer.host(scale))
    return f"{text} * {LOG2_E}" if addresses.power == "exp2" else text


def _limits(attention: Attention, config: Config, namer: Namer) -> list[str]:
    """Lines that refuse heads that are longer than a tile holds."""
    lengths = (
        (namer.host(attention.dims), "BLOCK_D"),
        (namer.host(attention.shape[3]), "BLOCK_E"),
    )
    lines = [line for size, block in lengths for line in at_most(size, config.blocks[block])]
    return list(dict.fromkeys(lines))


def allocated(name: str, shape: Sequence[str], dtype: str) -> str:
    """A result of four axes, in memory (batch, token, head, dim)."""
    batch, heads, tokens, dims = shape
    size = f"({batch}, {tokens}, {heads}, {dims})"
    return f"{name} = torch.empty({size}, dtype={dtype}, device=device).transpose(1, 2)"


def result_names(attention: Attention, unread: Sequence[str], namer: Namer) -> list[str]:
    """What the results are called; `unread`: what those are that nobody reads."""
    return [
        namer.local(other) if part is None else namer.host(part.node)
        for part, other in zip(attention.results, unread, strict=True)
    ]


def _factor(text: str) -> str:
    """Something to multiply with."""
    return text if text.replace("_", "").replace(".", "").isalnum() else f"({text})"


def _is_wide(attention: Attention) -> bool:
    s = attention.full
    most = max(s.heads * s.queries * s.dims, s.heads * s.keys * max(s.dims, s.value_dims))
    return 3 * s.batch * max(most, s.heads * s.queries * s.value_dims) >= _ADDRESSED
