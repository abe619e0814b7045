"""What kind of problem a module is: the operations its source names, and the families they belong to.

Read from the text alone; nothing is imported and nothing is run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kernelagent.domain.replies.parsing import parse

ANY = "any"
"""The pattern of lessons that hold whatever is computed, such as a rule of the language."""
ELEMENTWISE = "elementwise"

_FAMILIES = {
    "attention": "scaled_dot_product_attention multiheadattention",
    "convolution": "conv conv1d conv2d conv3d convtranspose1d convtranspose2d convtranspose3d unfold",
    "gather": "gather scatter scatter_add index_select index_add embedding take take_along_dim",
    "matmul": "matmul mm bmm addmm baddbmm linear bilinear einsum dot inner outer tensordot",
    "normalisation": "layer_norm layernorm rms_norm rmsnorm group_norm groupnorm batch_norm batchnorm1d "
    "batchnorm2d batchnorm3d instance_norm instancenorm1d instancenorm2d normalize",
    "pooling": "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d maxpool1d maxpool2d maxpool3d "
    "avgpool1d avgpool2d avgpool3d adaptive_avg_pool2d adaptiveavgpool2d",
    "reduction": "sum mean amax amin max min argmax argmin var std norm prod any all count_nonzero "
    "mse_loss l1_loss smooth_l1_loss cosine_similarity kl_div",
    "scan": "cumsum cumprod cummax cummin logcumsumexp",
    "softmax": "softmax log_softmax logsoftmax logsumexp cross_entropy crossentropyloss nll_loss",
    "sort": "sort argsort topk unique kthvalue",
    ELEMENTWISE: "gelu silu relu leaky_relu sigmoid tanh exp log sqrt rsqrt square pow abs clamp where "
    "masked_fill softplus mish elu selu hardtanh hardswish hardsigmoid dropout cos sin erf chunk cat",
}
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names.split()}
_ROWWISE = frozenset({"softmax", "normalisation", "reduction"})
"""Families whose kernels look alike: a row is read, reduced, and written."""


@dataclass(frozen=True)
class Pattern:
    """The kind of a problem."""

    families: tuple[str, ...]
    """Sorted; `elementwise` only where there is nothing else."""
    operations: tuple[str, ...]
    """Sorted names as the source has them, in lower case."""

    @property
    def name(self) -> str:
        return "+".join(self.families)

    def likeness(self, other: Pattern) -> float:
        """0: nothing in common; 1 to 2: the same families, by how many operations are shared.

        Between: a share of the families, and half of that where they are only alike (row-wise).
        """
        ours, theirs = frozenset(self.families), frozenset(other.families)
        if ours == theirs:
            return 1.0 + _shared(frozenset(self.operations), frozenset(other.operations))
        if both := ours & theirs:
            return len(both) / len(ours | theirs)
        return 0.25 if ours & _ROWWISE and theirs & _ROWWISE else 0.0


@lru_cache(maxsize=1024)
def pattern_of(source: str) -> Pattern:
    """The pattern of a module's source; source that does not parse is searched for words."""
    try:
        names = set(_named(parse(source)))
    except (SyntaxError, ValueError):
        names = set(re.findall(r"\w+", source))
    lowered = {name.lower().removeprefix("nn.") for name in names}
    operations = tuple(sorted(name for name in lowered if name in _FAMILY))
    families = {_FAMILY[name] for name in operations}
    if "mean" in operations and {"rsqrt", "sqrt"} & set(operations):
        families.add("normalisation")
    if families & {"softmax", "normalisation"}:
        families.discard("reduction")
    return Pattern(tuple(sorted(families - {ELEMENTWISE})) or (ELEMENTWISE,), operations)


def parsed(name: str, operations: tuple[str, ...] = ()) -> Pattern:
    """Inverse of `Pattern.name`."""
    return Pattern(tuple(sorted(name.split("+"))), operations)


def _named(tree: ast.AST) -> Iterator[str]:
    """The functions and modules that are called, by their last name; `@` is a product."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
                # The inputs' own making (`torch.rand`, `randint`) is in no family.
                yield name
            case ast.BinOp(op=ast.MatMult()):
                yield "matmul"
            case ast.BinOp(op=ast.Pow()):
                yield "pow"


def _shared(first: frozenset[str], other: frozenset[str]) -> float:
    union = first | other
    return len(first & other) / len(union) if union else 1.0
