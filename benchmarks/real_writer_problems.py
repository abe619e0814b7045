"""What real writers are asked: problems that nobody here wrote, spread over classes of operations.

KernelBench's are read from a folder that is given; blocks of `transformers` are built as in `model_blocks_list`.
Those that stand first were begun first, so that a study that is cut off has them under every arm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.model_blocks_list import BLOCKS

KERNELBENCH_AT = "423217d"


@dataclass(frozen=True)
class Asked:
    """One problem of the study; `file` begins a file of KernelBench, or is empty for a block of a model."""

    name: str
    kind: str
    """The class of what it computes most of."""
    file: str = ""
    block: str = ""

    def laid_out(self, kernelbench: Path, folder: Path) -> tuple[Path, str]:
        """Its file and the module's name in it; raises FileNotFoundError where KernelBench has no such problem."""
        if self.block:
            block = next(block for block in BLOCKS if block.name == self.block)
            path = folder / f"{self.name}.py"
            path.write_text(block.source, encoding="utf-8")
            return path, block.kind
        level, number = self.file.split("/")
        found = sorted((kernelbench / "KernelBench" / level).glob(f"{number}_*.py"))
        if not found:
            raise FileNotFoundError(f"{kernelbench} has no KernelBench/{level}/{number}_*.py")
        return found[0], "Model"


PROBLEMS = (
    Asked("cross_entropy", "long reduction", "level1/95"),
    Asked("matmul_swish_sum_groupnorm", "matrix product with what follows", "level2/37"),
    Asked("cumsum", "scan", "level1/89"),
    Asked("llama_mlp", "block of a model", block="LlamaMLP"),
    Asked("conv_relu_bias", "convolution with what follows", "level2/1"),
    Asked("causal_attention", "attention", "level3/43"),
    Asked("softmax", "long reduction", "level1/23"),
    Asked("tall_skinny_product", "matrix product", "level1/9"),
    Asked("qwen3_attention", "block of a model", block="Qwen3Attention"),
    Asked("matmul_swish_scaling", "matrix product with what follows", "level2/59"),
    Asked("sum_over_a_dimension", "reduction", "level1/47"),
    Asked("group_norm", "norm", "level1/35"),
    Asked("conv_transpose_chain", "convolution with what follows", "level2/5"),
    Asked("batch_norm", "norm", "level1/33"),
    Asked("scaled_dot_product", "attention", "level1/97"),
    Asked("max_pool", "pooling", "level1/43"),
    Asked("bert_layer", "block of a model", block="BertLayer"),
    Asked("gemm_chain", "matrix product with what follows", "level2/29"),
    Asked("argmax", "reduction", "level1/51"),
    Asked("vision_attention", "attention", "level3/31"),
    Asked("square_product", "matrix product", "level1/1"),
    Asked("depthwise_conv", "convolution", "level1/85"),
    Asked("gpt2_mlp", "block of a model", block="GPT2MLP"),
    Asked("lstm", "recurrence", "level3/35"),
)


def wanted(names: Collection[str]) -> Iterator[Asked]:
    """Those of these names, in order; all where none is named."""
    return (asked for asked in PROBLEMS if not names or asked.name in names)
