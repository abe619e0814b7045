"""Which values of tensors a forward takes to the host, seen as torch is asked for them, however a text spells it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from kernelagent.tools.calls.higher_order import by_its_own_code, is_higher_order
from kernelagent.tools.candidate_runner.host.asking_line import OTHERS, frame_of

TELLING = frozenset(
    """item tolist numpy is_nonzero equal allclose __bool__ __int__ __float__ __index__ __complex__ __repr__ __str__
    __format__ __array__ __dlpack__ __contains__ __reduce_ex__ hash_tensor
    nonzero argwhere masked_select unique unique_consecutive""".split()
)
"""The last ones tell it by the size of what they return."""
_INDEXING = frozenset({"__getitem__"})

_BY_VALUES: Mapping[str, str] = {
    "bincount": "bincount",
    "repeat_interleave": "repeat_interleave",
    "nonzero": "nonzero",
    "masked_select": "masked_select",
    "_unique": "unique",
    "_unique2": "unique",
    "unique_dim": "unique",
    "unique_consecutive": "unique_consecutive",
    "_to_sparse": "to_sparse",
    "_coalesce": "coalesce",
    "_linalg_check_errors": "linalg",
    "linalg_lu_factor": "linalg",
    "linalg_ldl_factor": "linalg",
    "multinomial": "multinomial",
}
"""Operations below torch's functions whose size, or whose error, tells values; with the names they are told by."""


class HostReads(TorchFunctionMode):
    """While entered, notes what the candidate's own text asks for."""

    def __init__(self, file: str) -> None:
        """`file`: of the candidate."""
        super().__init__()
        self._file = file
        self._found: dict[str, None] = {}
        self._scalars = _Scalars(self)

    def __enter__(self) -> HostReads:
        super().__enter__()  # type: ignore[no-untyped-call]
        self._scalars.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        self._scalars.__exit__(*raised)  # type: ignore[no-untyped-call]
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    @property
    def names(self) -> tuple[str, ...]:
        """By torch's names, in the order of the first of each."""
        return tuple(self._found)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in TELLING or (name in _INDEXING and _by_mask(args)):
            self.note(name)
        return func(*args, **(kwargs or {}))

    def note(self, name: str) -> None:
        if self._is_asked():
            self._found[name] = None

    def _is_asked(self) -> bool:
        """Whether the text asks, itself or through torch's or Python's own functions."""
        # The caller of `note` is the method of a mode.
        return frame_of(self._file, sys._getframe(2), OTHERS) is not None


class _Scalars(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes a number that an operation of torch takes out of a tensor by itself, as a size for example."""

    supports_higher_order_operators = True

    def __init__(self, reads: HostReads) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._reads = reads

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if is_higher_order(func):
            return by_its_own_code(self, func, args, kwargs)
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense":
            self._reads.note("item")
        elif name in _BY_VALUES and (kwargs or {}).get("output_size") is None:
            self._reads.note(_BY_VALUES[name])
        return func(*args, **(kwargs or {}))


def _by_mask(args: tuple[Any, ...]) -> bool:
    """An index that is a mask: how many it picks shows."""
    picked = args[1] if len(args) > 1 else None
    parts = picked if isinstance(picked, tuple) else (picked,)
    return any(isinstance(p, torch.Tensor) and p.dtype in (torch.bool, torch.uint8) for p in parts)
