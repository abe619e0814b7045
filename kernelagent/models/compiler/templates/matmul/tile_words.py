"""A product's kernel in PyTorch's words: its docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from kernelagent.models.compiler.templates.matmul.epilogue import Epilogue
from kernelagent.models.compiler.templates.matmul.factor_source import FactorSource
from kernelagent.models.compiler.templates.matmul.kernel_text import Stride

_PRODUCT = re.compile(r"\b(?:addmm|baddbmm|mm|bmm|mv|dot)(?:_default)?(?:_\d+)?\b")
"""What an ending calls the product."""


def product_words(names: Mapping[str, str], strides: Mapping[str, Stride]) -> str:
    """The product itself, with what is added to it; `names`: of the tensors in the kernel."""
    right = strides.get("right")
    transposed = ".T" if right is not None and right.cols == "n_inner" else ""
    return f"{names['left']} @ {names['right']}{transposed}"


def docstring(
    names: Mapping[str, str],
    strides: Mapping[str, Stride],
    factors: Iterable[FactorSource],
    end: Epilogue | None,
) -> list[str]:
    """What precedes the product and what follows it, too."""
    text = product_words(names, strides)
    if "addend" in names:
        text += f" + {names['addend']}"
    before = [line for factor in factors for line in factor.about()]
    after = _after(names, end)
    if not before and not after:
        return [f'"""In PyTorch: {text}."""']
    if after is None and not before:
        return [f'"""In PyTorch: {text}, and what follows it element by element."""']
    if after is None:
        lines = [text, "and what follows it element by element"]
    else:
        lines = [f"product = {text}" if after else text, *after]
    return ['"""In PyTorch:', "", *before, *lines, '"""']


def _after(names: Mapping[str, str], end: Epilogue | None) -> list[str] | None:
    """What follows the product, in terms of `product`; None where nothing says which of several that is."""
    if end is None or not end.kernel.expressions:
        return []
    lines = end.kernel.expressions
    if len({name for line in lines for name in _PRODUCT.findall(line)}) > 1:
        return None
    called = {ast.unparse(node): names[p] for p, node in end.tensors.items()}
    return [
        _PRODUCT.sub("product", re.sub(r"\w+", lambda m: called.get(m[0], m[0]), line))
        for line in lines
    ]
