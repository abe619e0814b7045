"""The scope in which `triton.language` computes on many programs at once."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import triton.language as tl

from kernelagent.tools.virtual.arithmetic.elementwise import Handle, make
from kernelagent.tools.virtual.batched.accesses import NotBatchable
from kernelagent.tools.virtual.batched.builder import BatchedBuilder
from kernelagent.tools.virtual.batched.control import Control
from kernelagent.tools.virtual.batched.reductions import (
    BatchedMapped,
    BatchedReduction,
    BatchedScan,
)
from kernelagent.tools.virtual.batched.rewriting import rewrite
from kernelagent.tools.virtual.interpreter import loops
from kernelagent.tools.virtual.interpreter.language import Language, Recorder
from kernelagent.tools.virtual.interpreter.left_out import is_asked_by_triton
from kernelagent.tools.virtual.kernel_text.joined import follow


class BatchedLanguage(Language):
    """The same patches, over the builder with an axis for programs."""

    builder: BatchedBuilder
    reduction = BatchedReduction
    scan = BatchedScan
    mapped = BatchedMapped

    def __init__(self) -> None:
        super().__init__(BatchedBuilder())

    def make_logic(self) -> loops.Logic:
        return Control(self.builder, self.semantic)

    def rewrite_control(self, definition: ast.FunctionDef) -> None:
        rewrite(definition)

    def patch_further(self, scope: Recorder) -> None:
        scope.set_attr(tl.tensor, "__bool__", _truth)
        scope.set_attr(tl.tensor, "__index__", lambda self: int(_only(self)))
        scope.set_attr(tl.tensor, "T", property(self._turned_over))
        for owner in (tl, tl.core):
            scope.set_attr(owner, "static_print", self.logic.printed)

    def _turned_over(self, item: Any) -> Any:
        """`tensor.T`"""
        made = _transposed(item)
        follow(self.builder, made.handle, (item.handle,), _turned)
        return made


def _truth(self: Any) -> bool:
    if is_asked_by_triton():
        return True
    return True if self.type.is_block() else bool(_only(self))


def _only(tensor: Any) -> Any:
    data = tensor.handle.data
    if data.size > 1:
        raise NotBatchable("Python asks for a value that programs may not share", always=True)
    return data.reshape(-1)[0]


def _turned(handle: Handle) -> Handle:
    return make(np.swapaxes(handle.data, -1, -2), handle.dtype)


def _transposed(self: Any) -> Any:
    shape = list(self.type.shape)
    shape[-1], shape[-2] = shape[-2], shape[-1]
    made = _turned(self.handle)
    made.attr |= self.handle.attr
    return tl.tensor(made, tl.block_type(self.dtype, shape))
