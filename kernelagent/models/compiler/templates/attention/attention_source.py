"""The text of an attention's kernel: scores of a tile of queries are never stored.

Online softmax as in FlashAttention (Dao et al., arXiv:2205.14135): the running maximum and sum of each
row correct what was added up before.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.kernels.layout import folded
from kernelagent.models.compiler.templates.attention.addressing import Addresses

_INFINITE = 'float("-inf")'


@dataclass(frozen=True)
class Source:
    """All that decides the kernel but for the configuration."""

    addresses: Addresses

    def kernel(self, name: str, config: Config) -> str:
        """The definition."""
        addresses = self.addresses
        outs = ("out", *(["rows"] if addresses.attention.keeps_rows else []))
        given = [f"{role}_ptr" for role in (*addresses.roles, *outs)]
        given += [*addresses.sizes, "scale", *addresses.parameters]
        given += [f"{block}: tl.constexpr" for block in config.blocks]
        head = ["@triton.jit", folded(f"def {name}({', '.join(given)}):")]
        text = folded("\n".join(self._body(config)))
        return "\n".join([*head, textwrap.indent(text, "    ")])

    def _body(self, config: Config) -> list[str]:
        addresses = self.addresses
        how = "" if config.precision is None else f', input_precision="{config.precision}"'
        dtype = addresses.attention.query.dtype
        narrow = "" if dtype == "torch.float32" else ".to(value.dtype)"
        lengths = addresses.value_length
        return [
            "# A tile of queries goes over all keys; its scores are never stored.",
            f"program = {addresses.long('tl.program_id(1)')}",
            "batch = program // n_heads",
            "head = program % n_heads",
            *addresses.shared_head(),
            f"queries = {addresses.long('tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)')}",
            "dims = tl.arange(0, BLOCK_D)",
            "value_dims = tl.arange(0, BLOCK_E)",
            "query_mask = (queries < n_queries)[:, None]",
            *(line for role in addresses.roles for line in addresses.heads(role)),
            addresses.load("query", "query_mask & (dims < n_dims)[None, :]"),
            "# Of each row: the highest score so far, the sum of the exponentials, the weighted values.",
            f"highest = tl.full((BLOCK_M,), {_INFINITE}, tl.float32)",
            "total = tl.zeros((BLOCK_M,), tl.float32)",
            "values = tl.zeros((BLOCK_M, BLOCK_E), tl.float32)",
            *self._turns(),
            *(f"    {line}" for line in self._turn(how, narrow)),
            *self._divided(),
            "rows = (batch * n_queries + queries) * n_heads + head",
            f"inside = query_mask & (value_dims < {lengths})[None, :]",
            f"tl.store(out_ptr + rows[:, None] * {lengths} + value_dims[None, :], values, mask=inside)",
            *self._kept(),
        ]

    def _divided(self) -> list[str]:
        if self.addresses.attention.call.softmax_of_nothing:
            return ["values = values / total[:, None]"]
        return [
            "# A row that sees no key is zero, as torch has it.",
            "values = values / tl.where(total == 0.0, 1.0, total)[:, None]",
        ]

    def _kept(self) -> list[str]:
        """What the backward computes the weights from again."""
        if not self.addresses.attention.keeps_rows:
            return []
        return [
            "# Of each row for the backward: its highest score, and one over the sum.",
            "seen = total > 0.0",
            "kept = rows_ptr + 2 * (program * n_queries + queries)",
            "tl.store(kept, tl.where(seen, highest, 0.0), mask=queries < n_queries)",
            "tl.store(kept + 1, tl.where(seen, 1.0 / total, 0.0), mask=queries < n_queries)",
        ]

    def _turns(self) -> list[str]:
        if not self.addresses.attention.call.causal:
            return ["for start in range(0, n_keys, BLOCK_N):"]
        return [
            "# No query sees a later key.",
            "last = tl.minimum(n_keys, (tl.program_id(0) + 1) * BLOCK_M)",
            "for start in range(0, last, BLOCK_N):",
        ]

    def _turn(self, how: str, narrow: str) -> list[str]:
        addresses = self.addresses
        value_mask = f"(keys < n_keys)[:, None] & (value_dims < {addresses.value_length})[None, :]"
        return [
            f"keys = {addresses.long('start + tl.arange(0, BLOCK_N)')}",
            addresses.load("key", "(dims < n_dims)[:, None] & (keys < n_keys)[None, :]"),
            f"scores = tl.dot(query, key{how}) * scale",
            *addresses.visible(),
            f"scores = tl.where(visible, scores, {_INFINITE})",
            "higher = tl.maximum(highest, tl.max(scores, 1))",
            "# A row that has seen no key yet has nothing to subtract.",
            f"anchor = tl.where(higher == {_INFINITE}, 0.0, higher)",
            f"weights = tl.{addresses.power}(scores - anchor[:, None])",
            f"shrunk = tl.{addresses.power}(highest - anchor)",
            "total = total * shrunk + tl.sum(weights, 1)",
            addresses.load("value", value_mask),
            f"values = tl.dot(weights{narrow}, value, values * shrunk[:, None]{how})",
            "highest = higher",
        ]
