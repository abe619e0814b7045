"""Whole numbers that the reference meets integers with as it runs: a period may be computed, and stand in no text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelagent.tools.calls.torch_dtypes import holds_integers
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS

_MEETS = frozenset(
    "remainder fmod floor_divide div eq ne lt le gt ge clamp clamp_min clamp_max minimum maximum".split()
)
_MOST = 64


class _Meeting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, notes numbers beside tensors of integers, of one element each or given as numbers."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers: dict[int, None] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = str(func.overloadpacket).partition(".")[2].rstrip("_")
        leaves = tree_leaves((args, kwargs or {}))
        if name in _MEETS and any(_counts(leaf) for leaf in leaves) and len(self.numbers) < _MOST:
            met = [leaf for leaf in leaves if isinstance(leaf, int) and not isinstance(leaf, bool)]
            met += [int(leaf) for leaf in leaves if _counts(leaf) and leaf.numel() == 1]
            self.numbers.update(dict.fromkeys(met))
        return result


def met_numbers(oracle: Oracle, arguments: Arguments) -> list[int]:
    """Of one call of the reference under the weights in use; none where it refuses the arguments."""
    meeting = _Meeting()
    try:
        with meeting:
            oracle.eager(arguments)
    except REFUSALS:
        return []
    return [*meeting.numbers]


def _counts(value: Any) -> bool:
    return holds_integers(value) and value.device.type != "meta"
