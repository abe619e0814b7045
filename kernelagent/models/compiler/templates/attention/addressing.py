"""How the kernels of attentions find and load their tensors: pointers, strides and masks as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.templates.attention.attentions import AXES, Attention

ROLES = ("query", "key", "value", "mask", "upstream")
_MAIN = ROLES[:3]


@dataclass(frozen=True)
class Addresses:
    """The tensors of four axes that one kernel reads."""

    attention: Attention
    strides: Mapping[str, Sequence[str]]
    """By role: the host's words for the strides of the four axes."""
    wide: bool
    """Offsets need 64 bits."""
    values_as_columns: bool = False
    """The value's tile is read like the key's, for products with upstream gradients."""

    @property
    def roles(self) -> list[str]:
        """The tensors that are read."""
        return [role for role in ROLES if role in self.strides]

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
    def value_length(self) -> str:
        """The size of a row of values."""
        return "n_dims" if self.attention.same_dims else "n_value_dims"

    def shared_head(self) -> list[str]:
        """The head of keys and values, from that of the queries."""
        if not self.attention.grouped:
            return []
        return ["# Neighbouring heads share one of keys and values.",
                "shared = head // (n_heads // n_shared_heads)"]  # fmt: skip

    def heads(self, role: str, named: str | None = None) -> list[str]:
        """The pointer moved to the program's own head; `named`: under that name, where it moves again."""
        terms = self._terms(role, (0, 1))
        if named is not None:
            return [f"{named} = {' + '.join([f'{role}_ptr', *terms])}"]
        return [f"{role}_ptr += {' + '.join(terms)}"] if terms else []

    def load(self, role: str, mask: str, pointer: str | None = None) -> str:
        """A tile of the head that the pointer was moved to."""
        terms = [pointer or f"{role}_ptr", *self._terms(role, (2, 3))]
        if role == "mask" and len(terms) == 1:
            return f"mask = tl.load({terms[0]})  # One number for all of them."
        other = "False" if role == "mask" and self.mask_chooses else "0.0"
        return f"{role} = tl.load({' + '.join(terms)}, mask={mask}, other={other})"

    @property
    def mask_chooses(self) -> bool:
        """It says which keys are seen, and is not added."""
        mask = self.attention.mask
        return mask is not None and mask.dtype == "torch.bool"

    @property
    def power(self) -> str:
        """Powers of two are quicker; the lowest number, which masks are made of, has no multiple by log2(e)."""
        return "exp2" if self.attention.mask is None or self.mask_chooses else "exp"

    def visible(self, pointer: str | None = None) -> list[str]:
        """Lines that say which of a tile's scores count, and add what is added to them."""
        seen = "(keys < n_keys)[None, :]"
        if self.attention.call.causal:
            seen += " & (keys[None, :] <= queries[:, None])"
        lines = [f"visible = {seen}"]
        if self.attention.mask is not None:
            lines.append(self.load("mask", "query_mask & visible", pointer))
            lines.append(
                "visible = visible & mask" if self.mask_chooses else "scores += mask.to(tl.float32)"
            )
        return lines

    def long(self, text: str) -> str:
        """An index, in 64 bits where offsets need them."""
        bracketed = text if text.startswith("tl.program_id(1)") else f"({text})"
        return f"{bracketed}.to(tl.int64)" if self.wide else text

    def _terms(self, role: str, axes: Sequence[int]) -> list[str]:
        terms = []
        for axis in axes:
            index, step = self._index(role, axis), self._stride(role, axis)
            if step != "0":
                terms.append(index if step == "1" else f"{index} * {step}")
        return terms

    def _index(self, role: str, axis: int) -> str:
        """What goes over an axis of a tensor. The key's tile is read as columns."""
        rows = {"query": "queries", "mask": "queries", "upstream": "queries"}.get(role, "keys")
        last = {"mask": "keys", "value": "value_dims", "upstream": "value_dims"}.get(role, "dims")
        columns = role == "key" or (role == "value" and self.values_as_columns)
        shared = role in ("key", "value") and self.attention.grouped
        return (
            "batch",
            "shared" if shared else "head",
            f"{rows}[None, :]" if columns else f"{rows}[:, None]",
            f"{last}[:, None]" if columns else f"{last}[None, :]",
        )[axis]

    def _stride(self, role: str, axis: int) -> str:
        """The kernel's word for a stride: 0, 1, or a parameter that equal ones share."""
        text = self.strides[role][axis]
        if text in ("0", "1"):
            return text
        alike = [r for r in _MAIN if self.strides[r][axis] == text]
        if len(alike) == 3 and role in _MAIN:
            return f"{AXES[axis]}_stride"
        if role == "value" and "key" in alike:
            role = "key"
        return f"{role}_{AXES[axis]}_stride"
