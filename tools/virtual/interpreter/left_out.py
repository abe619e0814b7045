"""Arguments that may be left out: Triton's own code asks for the truth of a tensor, and means whether there is one."""

from __future__ import annotations

import sys

from triton.language.semantic import TritonSemantic

_TRITONS: str = TritonSemantic.__init__.__code__.co_filename


def is_asked_by_triton() -> bool:
    """Whether the caller's caller is Triton's own code, as in `if mask and mask.type.is_block()` of a load.

    The compiler's tensors are all true. Here a mask that is one number would be a branch, on which programs go apart.
    """
    return sys._getframe(2).f_code.co_filename == _TRITONS
