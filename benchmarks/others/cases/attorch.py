"""attorch: layers with torch's own interface."""

from __future__ import annotations

from benchmarks.others.cases.case import CLASSES, IMAGES, ROWS, SEQUENCES, TWO, Case, Project

ATTORCH = Project("BobMcDear/attorch")
_INFINITE = "infinite where torch is not, for inputs beyond 88"
_TF32_CONVOLUTION = "rounds fp32 to TF32, as cuDNN's convolutions do and a CPU's do not: a GPU's judge would accept it (docs/limits.md)"


def _layer(
    name: str,
    file: str,
    kind: str,
    made: str,
    inputs: str,
    arguments: str = "x",
    *,
    fault: str = "",
    limit: str = "",
) -> Case:
    """A layer of attorch with torch's own interface."""
    return Case(
        f"attorch {name}", ATTORCH, f"attorch.{file}", (kind,), inputs,
        f"self.layer({arguments})", f"self.layer({arguments})",
        state=f"self.layer = nn.{made}", own_state=f"self.layer = {made}", arguments=arguments,
        fault=fault, limit=limit,
    )  # fmt: skip


_ACTIVATIONS = (
    "Sigmoid()", "LogSigmoid()", "Tanh()", "ReLU()", "GELU()", "SiLU()", "ReLU6()", "Hardsigmoid()", "Hardtanh()",
    "Hardswish()", "SELU()", "Mish()", "Softplus()", "Softsign()", "Tanhshrink()", "LeakyReLU(negative_slope=0.1)", "ELU()", "CELU()",
    "Hardshrink()", "Softshrink()",
)  # fmt: skip

CASES = (
    *(
        _layer(
            made.split("(")[0], "act_layers", made.split("(")[0], made, ROWS,
            fault=_INFINITE if made in ("LogSigmoid()", "Softplus()") else "",
        )
        for made in _ACTIVATIONS
    ),
    _layer("softmax", "softmax_layers", "Softmax", "Softmax(-1)", ROWS),
    _layer("log softmax", "softmax_layers", "LogSoftmax", "LogSoftmax(-1)", ROWS),
    _layer("softmin", "softmax_layers", "Softmin", "Softmin(-1)", ROWS),
    _layer("layer norm", "layer_norm_layer", "LayerNorm", "LayerNorm(768)", SEQUENCES),
    _layer("RMS norm", "rms_norm_layer", "RMSNorm", "RMSNorm(768)", SEQUENCES),
    _layer("GLU", "glu_layer", "GLU", "GLU(-1)", SEQUENCES),
    _layer("batch norm", "batch_norm_layer", "BatchNorm2d", "BatchNorm2d(32)", IMAGES),
    _layer("convolution", "conv_layer", "Conv2d", "Conv2d(32, 64, 3, padding=1)", IMAGES, limit=_TF32_CONVOLUTION),
    _layer("strided convolution in groups", "conv_layer", "Conv2d", "Conv2d(32, 64, 3, stride=2, groups=2)", IMAGES,
           limit=_TF32_CONVOLUTION),
    _layer("NLL loss", "nll_loss_layer", "NLLLoss", "NLLLoss()", CLASSES, "x, y"),
    _layer("cross entropy", "cross_entropy_loss_layer", "CrossEntropyLoss", "CrossEntropyLoss()", CLASSES, "x, y"),
    _layer("L1 loss", "p_loss_layers", "L1Loss", "L1Loss()", TWO, "x, y"),
    _layer("MSE loss", "p_loss_layers", "MSELoss", "MSELoss()", TWO, "x, y"),
    _layer("Huber loss", "p_loss_layers", "HuberLoss", "HuberLoss()", TWO, "x, y"),
    Case("attorch linear and GELU", ATTORCH, "attorch.linear_layer", ("LinearAutoGrad",), "torch.randn(512, 256)",
         "F.gelu(F.linear(x, self.weight, self.bias))",
         'LinearAutoGrad.apply(x, self.weight.t(), self.bias, "gelu")',
         state="self.weight = nn.Parameter(torch.randn(384, 256) * 0.1); self.bias = nn.Parameter(torch.randn(384))",
         fault="rounds fp32 to TF32, which torch's \"highest\" does not"),
    Case("attorch attention", ATTORCH, "attorch.multi_head_attention_kernels", ("_attention",),
         "torch.randn(2, 4, 256, 64).half(), torch.randn(2, 4, 256, 64).half(), torch.randn(2, 4, 256, 64).half()",
         "F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.125)",
         "_attention.apply(q, k, v, True, 0.125, False)", arguments="q, k, v",
         limit="tl.advance is gone from Triton 3.9, which torch 2.13 brings"),
)  # fmt: skip
