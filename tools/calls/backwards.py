"""The backwards of one training step: the gradients that each leaves, and what it must leave alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.tools.calls.memory_sharing import overlap
from kernelagent.tools.calls.same_values import same_bytes

Row = tuple[torch.Tensor | None, ...]
Leaves = dict[str, tuple[torch.Tensor, ...]]
"""By name what one gradient is taken of; tied parameters that a candidate holds apart share a name."""
FIRST, APART, ACCUMULATED = "first", "apart", "accumulated"
"""`.grad` after one backward; what `autograd.grad` returns; `.grad` after one more backward."""


@dataclass
class Watch:
    """What a backward must leave alone; nothing is looked at where it is timed."""

    kept: bool = True
    together: tuple[tuple[str, str], ...] = ()
    on_context: int = 0
    held: tuple[tuple[str, int, int], ...] = ()

    @contextmanager
    def over(self, row: Sequence[torch.Tensor | None]) -> Iterator[None]:
        before = [None if tensor is None else tensor.detach().clone() for tensor in row]
        yield
        pairs = zip(before, row, strict=True)
        self.kept &= all(a is None or b is None or same_bytes(a, b) for a, b in pairs)

    def see_contexts(self, output: Any) -> None:
        """Looked at between the forward and its backward."""
        nodes = [t.grad_fn for t in tree_leaves(output) if isinstance(t, torch.Tensor)]
        known: dict[int, Any] = {}
        while nodes:
            node = nodes.pop()
            if node is not None and id(node) not in known:
                known[id(node)] = node
                nodes += [before for before, _ in node.next_functions]
        held = {
            tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes()
            for node in known.values()
            for tensor in _on_context(node)
        }
        self.on_context = sum(held.values())

    def see(self, leaves: Leaves) -> None:
        held = [(name, t.grad) for name, tensors in leaves.items() for t in tensors]
        grads = [(name, grad) for name, grad in held if grad is not None]
        self.together = tuple(
            (first, other)
            for at, (other, right) in enumerate(grads)
            for first, left in grads[:at]
            if overlap(left, right)
        )
        shown: Counter[int] = Counter()
        for _, grad in grads:
            shown[grad.untyped_storage()._cdata] += grad.numel() * grad.element_size()
        memory = [(name, grad.untyped_storage()) for name, grad in grads]
        self.held = tuple((name, shown[m._cdata], m.nbytes()) for name, m in memory)


def _on_context(node: Any) -> list[torch.Tensor]:
    """What a function written in Python holds beside what it gave to `save_for_backward`."""
    if not isinstance(node, torch.autograd.function.BackwardCFunction):
        return []
    own = tree_leaves(list(getattr(node, "__dict__", {}).values()))
    return [t for t in own if isinstance(t, torch.Tensor) and t.layout == torch.strided]


def apart_names(count: int) -> tuple[str, ...]:
    """What the gradients of the further backwards of so many are called."""
    return tuple(f"{APART} {at}" for at in range(1, count - 2))


def backwards(
    outputs: Sequence[torch.Tensor],
    rows: Sequence[Row],
    leaves: Leaves,
    watch: Watch | None,
) -> dict[str, dict[str, torch.Tensor | None]]:
    if len(rows) == 1:
        return {APART: _apart(outputs, rows[0], leaves, watch, last=True)}
    first, apart, again, *more = rows
    further = list(zip(apart_names(len(rows)), more, strict=True))
    result = {}
    # On both sides of the one into `.grad`: which backward it is must not matter.
    for name, row in further[::2]:
        result[name] = _apart(outputs, row, leaves, watch, last=False)
    _accumulate(outputs, first, watch, last=False)
    if watch is not None:
        watch.see(leaves)
    result[FIRST] = _accumulated(leaves)
    result[APART] = _apart(outputs, apart, leaves, watch, last=False)
    for name, row in further[1::2]:
        result[name] = _apart(outputs, row, leaves, watch, last=False)
    _accumulate(outputs, again, watch, last=True)
    result[ACCUMULATED] = _accumulated(leaves)
    return {name: result[name] for name in (FIRST, APART, *apart_names(len(rows)), ACCUMULATED)}


def _accumulate(
    outputs: Sequence[torch.Tensor], row: Row, watch: Watch | None, *, last: bool
) -> None:
    if outputs:
        with nullcontext() if watch is None else watch.over(row):
            torch.autograd.backward(list(outputs), list(row), retain_graph=not last)


def _accumulated(leaves: Leaves) -> dict[str, torch.Tensor | None]:
    # Copied: the next backward adds to the very same memory.
    return {name: _sum([_copy(t.grad) for t in tensors]) for name, tensors in leaves.items()}


def _copy(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return None if gradient is None else gradient.detach().clone()


def _apart(
    outputs: Sequence[torch.Tensor],
    row: Row,
    leaves: Leaves,
    watch: Watch | None,
    *,
    last: bool,
) -> dict[str, torch.Tensor | None]:
    flat = [tensor for tensors in leaves.values() for tensor in tensors]
    asked = [(o, g) for o, g in zip(outputs, row, strict=True) if g is not None]
    if not asked or not flat:
        return dict.fromkeys(leaves)
    chosen, given = [o for o, _ in asked], [g for _, g in asked]
    with nullcontext() if watch is None else watch.over(row):
        outcome = torch.autograd.grad(chosen, flat, given, retain_graph=not last, allow_unused=True)
    if len(asked) < len(row):
        # Zeros, or none: a function of several outputs cannot tell which the loss left out.
        outcome = tuple(
            torch.zeros_like(t) if g is None else g for g, t in zip(outcome, flat, strict=True)
        )
    result = iter(outcome)
    return {name: _sum([next(result) for _ in tensors]) for name, tensors in leaves.items()}


def _sum(gradients: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    there = [gradient.detach() for gradient in gradients if gradient is not None]
    if not there:
        return None
    total = there[0]
    for gradient in there[1:]:
        total = total + gradient
    return total
