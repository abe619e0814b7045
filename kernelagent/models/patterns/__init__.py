"""The library of kernels: what the built-in policy writes for usual modules, as files to read and to borrow from.

Made by `python -m kernelagent.models.compiler.make_patterns`, which has the modules; nothing here imports torch.
"""

from __future__ import annotations

from importlib.resources import files

PATTERNS: dict[str, str] = {
    "matmul": "product of float16 matrices: tiles on tensor cores, groups of rows for L2",
    "matmul_float32": "product of float32 matrices, three TF32 products in the place of one (`tf32x3`)",
    "matmul_split_k": "product with a long inner dimension: its parts in many programs, added up in a second kernel",
    "matmul_batched": "a batch of products, one operand transposed",
    "matrix_vector": "matrix by vector: sums of products, no tensor cores",
    "linear_gelu": "linear layer whose bias and gelu are done in the product's own tile",
    "softmax": "softmax over rows that fit a program",
    "softmax_long": "softmax over rows that do not: a loop for the maximum, one for the sum, one to divide",
    "layer_norm": "layer norm with weight and bias, a row a program",
    "rms_norm": "RMS norm with a residual added first",
    "attention": "causal attention of float16 heads in one kernel: online softmax, scores are never stored",
    "attention_float32": "the same in float32, each product as three TF32 products (`tf32x3`)",
    "sum_of_all": "sum over a whole tensor in two phases",
    "sum_of_columns": "sum over the leading dimension",
}
"""What each is, by its name."""


def pattern(name: str) -> str:
    """The file of that name; raises `KeyError`."""
    if name not in PATTERNS:
        raise KeyError(name)
    return (files(__package__) / f"{name}.tmpl").read_text(encoding="utf-8")
