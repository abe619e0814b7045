"""How many operations of torch something takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


def operations_of(work: Callable[[], object]) -> int:
    """Whatever their size: on a GPU each is a launch."""
    with _Counting() as seen:
        work()
    return seen.count


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))
