"""Unsloth: kernels for fine-tuning LLMs."""

from __future__ import annotations

from benchmarks.others.cases.case import (
    AFFINE,
    CLASSES,
    RMS,
    SEQUENCES,
    TWO,
    WEIGHT,
    Project,
    calls,
)

UNSLOTH = Project(
    "unslothai/unsloth",
    ".",
    {
        "torch_gpu_device": "import torch\ntorch_gpu_device = torch.cuda.device",
        "triton_tanh": "from triton.language.extra import libdevice\ntriton_tanh = libdevice.tanh",
        "triton_cast": "import triton.language as tl\ntriton_cast = tl.cast",
        "DEVICE_COUNT": "DEVICE_COUNT = 1",
        "is_cdna": "def is_cdna():\n    return False",
    },
)
_unsloth = calls(UNSLOTH, "unsloth", "unsloth.kernels")


CASES = (
    _unsloth("RMS norm", "rms_layernorm", "Fast_RMS_Layernorm", SEQUENCES, RMS,
             "Fast_RMS_Layernorm.apply(x, self.weight, 1e-6, False)", state=WEIGHT),
    _unsloth("layer norm", "layernorm", "Fast_Layernorm", SEQUENCES,
             "F.layer_norm(x, (768,), self.weight, self.bias, 1e-5)",
             "Fast_Layernorm.apply(x, self.weight, self.bias, 1e-5)", state=AFFINE),
    _unsloth("SwiGLU", "swiglu", "swiglu_fg_kernel", TWO, "F.silu(a) * b", "swiglu_fg_kernel(a, b)",
             arguments="a, b"),
    _unsloth("GeGLU", "geglu", "geglu_exact_forward_kernel", TWO, "F.gelu(a) * b",
             "geglu_exact_forward_kernel(a, b)", arguments="a, b"),
    _unsloth("GeGLU with tanh", "geglu", "geglu_approx_forward_kernel", TWO, 'F.gelu(a, approximate="tanh") * b',
             "geglu_approx_forward_kernel(a, b)", arguments="a, b"),
    _unsloth("cross entropy", "cross_entropy_loss", "Fast_CrossEntropyLoss", CLASSES,
             'F.cross_entropy(x, y, reduction="none")', "Fast_CrossEntropyLoss.apply(x, y, 0, 0)", arguments="x, y"),
)  # fmt: skip
