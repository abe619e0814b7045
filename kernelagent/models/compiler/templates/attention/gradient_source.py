"""The text of the two kernels of an attention's backward: neither stores scores, nor their gradients.

Both compute the weights of a tile again from the highest score and the sum that the forward kept of each row, as in
FlashAttention-2 (Dao, arXiv:2307.08691). One goes from a tile of queries over the keys, the other from a tile of keys
over the queries, so that each sum is a program's own and no atomic is needed.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.kernels.layout import folded
from kernelagent.models.compiler.templates.attention.addressing import Addresses

_LN_2 = "0.6931471805599453"
_QUERY_TILES = ("query", "upstream")


@dataclass(frozen=True)
class GradientSource:
    """All that decides a kernel but for the configuration."""

    addresses: Addresses
    of_query: bool

    def kernel(self, name: str, config: Config) -> str:
        """The definition."""
        addresses = self.addresses
        outs = ("query_grad",) if self.of_query else ("key_grad", "value_grad")
        given = [f"{role}_ptr" for role in (*addresses.roles, "rows", "delta", *outs)]
        given += [*addresses.sizes, "scale", *addresses.parameters]
        given += [f"{block}: tl.constexpr" for block in config.blocks]
        body = self._of_query(config) if self.of_query else self._of_keys(config)
        head = ["@triton.jit", folded(f"def {name}({', '.join(given)}):")]
        return "\n".join([*head, textwrap.indent(folded("\n".join(body)), "    ")])

    def _of_query(self, config: Config) -> list[str]:
        addresses = self.addresses
        how, narrow = self._how(config), self._narrow("key")
        causal = addresses.attention.call.causal
        last = "tl.minimum(n_keys, (tl.program_id(0) + 1) * BLOCK_M)" if causal else "n_keys"
        turn = [
            f"keys = {addresses.long('start + tl.arange(0, BLOCK_N)')}",
            self._load("key"),
            self._load("value"),
            *self._weights(how),
            f"gradient += tl.dot(slopes{narrow}, tl.trans(key){how})",
        ]
        return [
            "# A tile of queries goes over the keys; the weights are computed again.",
            f"program = {addresses.long('tl.program_id(1)')}",
            "batch = program // n_heads",
            "head = program % n_heads",
            *addresses.shared_head(),
            f"queries = {addresses.long('tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)')}",
            *self._dims(),
            *(line for role in addresses.roles for line in addresses.heads(role)),
            *self._of_queries("program"),
            "gradient = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)",
            *(["# No query sees a later key."] if causal else []),
            f"for start in range(0, {last}, BLOCK_N):",
            *(f"    {line}" for line in turn),
            "places = (batch * n_queries + queries) * n_heads + head",
            "inside = query_mask & (dims < n_dims)[None, :]",
            f"tl.store(query_grad_ptr + places[:, None] * n_dims + dims[None, :], gradient * {self._slope}, mask=inside)",
        ]

    def _of_keys(self, config: Config) -> list[str]:
        addresses = self.addresses
        how, narrow = self._how(config), self._narrow("query")
        heads = "n_shared_heads" if addresses.attention.grouped else "n_heads"
        lengths = addresses.value_length
        turn = [
            f"queries = {addresses.long('start + tl.arange(0, BLOCK_M)')}",
            *self._of_queries("row", own=True),
            *self._weights(how, self._own("mask")),
            f"value_grad += tl.dot(tl.trans(weights{narrow}), upstream{how})",
            f"key_grad += tl.dot(tl.trans(slopes{narrow}), query{how})",
        ]
        first, why = "0", []
        if addresses.attention.call.causal:
            why = ["# No key is seen by an earlier query."]
            first = "tl.program_id(0) * BLOCK_N // BLOCK_M * BLOCK_M"
        over_queries = [
            *why,
            f"for start in range({first}, n_queries, BLOCK_M):",
            *(f"    {line}" for line in turn),
        ]
        return [
            "# A tile of keys goes over the queries that see it; the weights are computed again.",
            f"program = {addresses.long('tl.program_id(1)')}",
            f"batch = program // {heads}",
            f"{self._key_head} = program % {heads}",
            f"keys = {addresses.long('tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)')}",
            *self._dims(),
            *(line for role in ("key", "value") for line in addresses.heads(role)),
            self._load("key"),
            self._load("value"),
            "key_grad = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)",
            "value_grad = tl.zeros((BLOCK_N, BLOCK_E), tl.float32)",
            *self._for_each_head(over_queries),
            f"places = (batch * n_keys + keys) * {heads} + {self._key_head}",
            "key_mask = (keys < n_keys)[:, None]",
            f"tl.store(key_grad_ptr + places[:, None] * n_dims + dims[None, :], key_grad * {self._slope}, "
            "mask=key_mask & (dims < n_dims)[None, :])",
            f"tl.store(value_grad_ptr + places[:, None] * {lengths} + value_dims[None, :], value_grad, "
            f"mask=key_mask & (value_dims < {lengths})[None, :])",
        ]

    def _for_each_head(self, lines: list[str]) -> list[str]:
        """Over the heads of queries that share the program's head of keys."""
        moved = [
            line
            for role in ("query", "upstream", *self._own("mask"))
            for line in self.addresses.heads(role, named=f"own_{role}_ptr")
        ]
        row = "row = batch * n_heads + head"
        if not self.addresses.attention.grouped:
            return [row, *moved, *lines]
        return [
            "group = n_heads // n_shared_heads",
            "for head in range(shared * group, (shared + 1) * group):",
            *(f"    {line}" for line in (row, *moved, *lines)),
        ]

    def _own(self, role: str) -> dict[str, str]:
        return {role: f"own_{role}_ptr"} if role in self.addresses.roles else {}

    @property
    def _key_head(self) -> str:
        return "shared" if self.addresses.attention.grouped else "head"

    @property
    def _slope(self) -> str:
        """Of a score along the product: the scale without the logarithm in it."""
        return f"(scale * {_LN_2})" if self.addresses.power == "exp2" else "scale"

    def _dims(self) -> list[str]:
        return ["dims = tl.arange(0, BLOCK_D)", "value_dims = tl.arange(0, BLOCK_E)"]

    def _of_queries(self, program: str, *, own: bool = False) -> list[str]:
        """Lines that load all that belongs to a tile of queries."""
        index = f"{program} * n_queries + queries"
        return [
            "query_mask = (queries < n_queries)[:, None]",
            *(self._load(role, f"own_{role}_ptr" if own else None) for role in _QUERY_TILES),
            f"highest = tl.load(rows_ptr + 2 * ({index}), mask=queries < n_queries, other=0.0)",
            f"share = tl.load(rows_ptr + 2 * ({index}) + 1, mask=queries < n_queries, other=0.0)",
            f"delta = tl.load(delta_ptr + {index}, mask=queries < n_queries, other=0.0)",
        ]

    def _weights(self, how: str, own: dict[str, str] | None = None) -> list[str]:
        addresses = self.addresses
        return [
            f"scores = tl.dot(query, key{how}) * scale",
            *addresses.visible((own or {}).get("mask")),
            f"weights = tl.{addresses.power}(scores - highest[:, None]) * share[:, None]",
            "weights = tl.where(visible, weights, 0.0)",
            f"slopes = weights * (tl.dot(upstream, value{how}) - delta[:, None])",
        ]

    def _load(self, role: str, pointer: str | None = None) -> str:
        length = "n_dims" if role in ("query", "key") else self.addresses.value_length
        dims = "dims" if role in ("query", "key") else "value_dims"
        if role in _QUERY_TILES:
            return self.addresses.load(role, f"query_mask & ({dims} < {length})[None, :]", pointer)
        mask = f"({dims} < {length})[:, None] & (keys < n_keys)[None, :]"
        return self.addresses.load(role, mask, pointer)

    def _how(self, config: Config) -> str:
        return "" if config.precision is None else f', input_precision="{config.precision}"'

    def _narrow(self, like: str) -> str:
        dtype = self.addresses.attention.query.dtype
        return "" if dtype == "torch.float32" else f".to({like}.dtype)"
