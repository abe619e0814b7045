"""The text of an attention's kernel: scores of a tile of queries are never stored.

Online softmax as in FlashAttention (Dao et al., arXiv:2205.14135): the running maximum and sum of each
row correct what was added up before.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.kernels.layout import folded
from kernelagent.models.compiler.templates.attention.attentions import AXES, Attention

_INFINITE = 'float("-inf")'
LOG2_E = "1.4426950408889634"
_ROLES = ("query", "key", "value", "mask")
_INDICES = {
    "query": ("batch", "head", "queries[:, None]", "dims[None, :]"),
    "key": ("batch", "shared", "keys[None, :]", "dims[:, None]"),
    "value": ("batch", "shared", "keys[:, None]", "value_dims[None, :]"),
    "mask": ("batch", "head", "queries[:, None]", "keys[None, :]"),
}
"""What goes over each axis of a tensor. The key's tile is read as columns."""


@dataclass(frozen=True)
class Source:
    """All that decides the kernel but for the configuration."""

    attention: Attention
    strides: Mapping[str, Sequence[str]]
    """By role: the host's words for the strides of the four axes."""
    wide: bool
    """Offsets need 64 bits."""

    @property
    def roles(self) -> list[str]:
        """The tensors that are read."""
        return [role for role in _ROLES if role in self.strides]

    @property
    def parameters(self) -> dict[str, str]:
        """Strides that the kernel takes, with what the host passes."""
        words = {
            self._stride(role, axis): text
            for role in self.roles
            for axis, text in enumerate(self.strides[role])
        }
        return {name: text for name, text in words.items() if name not in ("0", "1")}

    @property
    def sizes(self) -> list[str]:
        """Sizes that the kernel takes, in order."""
        return [
            "n_heads",
            *(["n_shared_heads"] if self.attention.grouped else []),
            "n_queries",
            "n_keys",
            "n_dims",
            *([] if self.attention.same_dims else ["n_value_dims"]),
        ]

    @property
    def power(self) -> str:
        """Powers of two are quicker; the lowest number, which masks are made of, has no multiple by log2(e)."""
        return "exp2" if self.attention.mask is None or self._is_bool else "exp"

    def kernel(self, name: str, config: Config) -> str:
        """The definition."""
        given = [f"{role}_ptr" for role in (*self.roles, "out")]
        given += [*self.sizes, "scale", *self.parameters]
        given += [f"{block}: tl.constexpr" for block in config.blocks]
        head = ["@triton.jit", folded(f"def {name}({', '.join(given)}):")]
        text = folded("\n".join(self._body(config)))
        return "\n".join([*head, textwrap.indent(text, "    ")])

    def _body(self, config: Config) -> list[str]:
        how = "" if config.precision is None else f', input_precision="{config.precision}"'
        dtype = self.attention.query.dtype
        narrow = "" if dtype == "torch.float32" else ".to(value.dtype)"
        lengths = "n_dims" if self.attention.same_dims else "n_value_dims"
        return [
            "# A tile of queries goes over all keys; its scores are never stored.",
            f"program = {self._long('tl.program_id(1)')}",
            "batch = program // n_heads",
            "head = program % n_heads",
            *self._shared(),
            f"queries = {self._long('tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)')}",
            "dims = tl.arange(0, BLOCK_D)",
            "value_dims = tl.arange(0, BLOCK_E)",
            "query_mask = (queries < n_queries)[:, None]",
            *(line for role in self.roles for line in self._heads(role)),
            self._load("query", "query_mask & (dims < n_dims)[None, :]"),
            "# Of each row: the highest score so far, the sum of the exponentials, the weighted values.",
            f"highest = tl.full((BLOCK_M,), {_INFINITE}, tl.float32)",
            "total = tl.zeros((BLOCK_M,), tl.float32)",
            "values = tl.zeros((BLOCK_M, BLOCK_E), tl.float32)",
            *self._turns(),
            *(f"    {line}" for line in self._turn(how, narrow, lengths)),
            *self._divided(),
            f"rows = {self._rows}",
            f"inside = query_mask & (value_dims < {lengths})[None, :]",
            f"tl.store(out_ptr + rows[:, None] * {lengths} + value_dims[None, :], values, mask=inside)",
        ]

    def _divided(self) -> list[str]:
        if self.attention.call.softmax_of_nothing:
            return ["values = values / total[:, None]"]
        return [
            "# A row that sees no key is zero, as torch has it.",
            "values = values / tl.where(total == 0.0, 1.0, total)[:, None]",
        ]

    @property
    def _rows(self) -> str:
        return "(batch * n_queries + queries) * n_heads + head"

    def _shared(self) -> list[str]:
        if not self.attention.grouped:
            return []
        return ["# Neighbouring heads share one of keys and values.",
                "shared = head // (n_heads // n_shared_heads)"]  # fmt: skip

    def _turns(self) -> list[str]:
        if not self.attention.call.causal:
            return ["for start in range(0, n_keys, BLOCK_N):"]
        return [
            "# No query sees a later key.",
            "last = tl.minimum(n_keys, (tl.program_id(0) + 1) * BLOCK_M)",
            "for start in range(0, last, BLOCK_N):",
        ]

    def _turn(self, how: str, narrow: str, lengths: str) -> list[str]:
        visible = "(keys < n_keys)[None, :]"
        if self.attention.call.causal:
            visible += " & (keys[None, :] <= queries[:, None])"
        mask = self.attention.mask
        masked = []
        if mask is not None:
            masked.append(self._load("mask", "query_mask & visible"))
            masked.append(
                "visible = visible & mask"
                if mask.dtype == "torch.bool"
                else "scores += mask.to(tl.float32)"
            )
        keys = self._long("start + tl.arange(0, BLOCK_N)")
        return [
            f"keys = {keys}",
            self._load("key", "(dims < n_dims)[:, None] & (keys < n_keys)[None, :]"),
            f"scores = tl.dot(query, key{how}) * scale",
            f"visible = {visible}",
            *masked,
            f"scores = tl.where(visible, scores, {_INFINITE})",
            "higher = tl.maximum(highest, tl.max(scores, 1))",
            "# A row that has seen no key yet has nothing to subtract.",
            f"anchor = tl.where(higher == {_INFINITE}, 0.0, higher)",
            f"weights = tl.{self.power}(scores - anchor[:, None])",
            f"shrunk = tl.{self.power}(highest - anchor)",
            "total = total * shrunk + tl.sum(weights, 1)",
            self._load("value", f"(keys < n_keys)[:, None] & (value_dims < {lengths})[None, :]"),
            f"values = tl.dot(weights{narrow}, value, values * shrunk[:, None]{how})",
            "highest = higher",
        ]

    def _heads(self, role: str) -> list[str]:
        """The pointer moved to the program's own head."""
        terms = self._terms(role, (0, 1))
        return [f"{role}_ptr += {' + '.join(terms)}"] if terms else []

    def _terms(self, role: str, axes: Sequence[int]) -> list[str]:
        terms = []
        for axis in axes:
            index, step = _INDICES[role][axis], self._stride(role, axis)
            index = "head" if index == "shared" and not self.attention.grouped else index
            if step != "0":
                terms.append(index if step == "1" else f"{index} * {step}")
        return terms

    def _load(self, role: str, mask: str) -> str:
        terms = [f"{role}_ptr", *self._terms(role, (2, 3))]
        if role == "mask" and len(terms) == 1:
            return "mask = tl.load(mask_ptr)  # One number for all of them."
        other = "False" if role == "mask" and self._is_bool else "0.0"
        return f"{role} = tl.load({' + '.join(terms)}, mask={mask}, other={other})"

    @property
    def _is_bool(self) -> bool:
        return self.attention.mask is not None and self.attention.mask.dtype == "torch.bool"

    def _stride(self, role: str, axis: int) -> str:
        """The kernel's word for a stride: 0, 1, or a parameter that equal ones share."""
        text = self.strides[role][axis]
        if text in ("0", "1"):
            return text
        alike = [r for r in _ROLES[:3] if self.strides[r][axis] == text]
        if len(alike) == 3 and role != "mask":
            return f"{AXES[axis]}_stride"
        if role == "value" and "key" in alike:
            role = "key"
        return f"{role}_{AXES[axis]}_stride"

    def _long(self, text: str) -> str:
        bracketed = text if text.startswith("tl.program_id(1)") else f"({text})"
        return f"{bracketed}.to(tl.int64)" if self.wide else text
