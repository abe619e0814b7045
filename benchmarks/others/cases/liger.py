"""Liger-Kernel: norms, activations, losses and their fusions for training LLMs."""

from __future__ import annotations

from benchmarks.others.cases.case import (
    AFFINE,
    CLASSES,
    HEADS,
    LOGS,
    PROBABILITIES,
    RMS,
    ROWS,
    SEQUENCES,
    TURNED,
    TWO,
    WEIGHT,
    Project,
    calls,
)

LIGER = Project(
    "linkedin/Liger-Kernel",
    "src",
    {
        "is_npu_available": "def is_npu_available():\n    return False",
        "infer_device": 'def infer_device():\n    return "cuda"',
        "infer_device_arch": 'def infer_device_arch():\n    return "hopper"',
    },
)
_liger = calls(LIGER, "liger", "liger_kernel.ops")
_TAU = """
def tau(x):
    z = torch.sort(x, -1, descending=True).values
    sums = z.cumsum(-1) - 1
    k = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    held = (z * k > sums).sum(-1, keepdim=True)
    return sums.gather(-1, held - 1) / held
"""
_NORMED = """
def normed(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
"""
_MASKED = """
def masked(x, value):
    later = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return x.masked_fill(later, value)
"""


CASES = (
    _liger("RMS norm", "rms_norm", "LigerRMSNormFunction", SEQUENCES, RMS,
           "LigerRMSNormFunction.apply(x, self.weight, 1e-6)", state=WEIGHT),
    _liger("RMS norm of gemma", "rms_norm", "LigerRMSNormFunction", SEQUENCES,
           "(1.0 + self.weight) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))",
           'LigerRMSNormFunction.apply(x, self.weight, 1e-6, 1.0, "gemma")', state=WEIGHT),
    _liger("layer norm", "layer_norm", "LigerLayerNormFunction", SEQUENCES,
           "F.layer_norm(x, (768,), self.weight, self.bias, 1e-5)",
           "LigerLayerNormFunction.apply(x, self.weight, self.bias, 1e-5)", state=AFFINE),
    _liger("SwiGLU", "swiglu", "LigerSiLUMulFunction", TWO, "F.silu(a) * b",
           "LigerSiLUMulFunction.apply(a, b)", arguments="a, b"),
    _liger("GeGLU", "geglu", "LigerGELUMulFunction", TWO, 'F.gelu(a, approximate="tanh") * b',
           "LigerGELUMulFunction.apply(a, b)", arguments="a, b"),
    _liger("rotary embedding", "rope", "LigerRopeFunction", HEADS, TURNED,
           "LigerRopeFunction.apply(q.clone(), k.clone(), cos, sin)", arguments="q, k, cos, sin"),
    _liger("cross entropy", "cross_entropy", "LigerCrossEntropyFunction", CLASSES, "F.cross_entropy(x, y)",
           "LigerCrossEntropyFunction.apply(x, y, None)[0]", arguments="x, y"),
    _liger("cross entropy, smoothed", "cross_entropy", "LigerCrossEntropyFunction", CLASSES,
           "F.cross_entropy(x, y, label_smoothing=0.1)",
           "LigerCrossEntropyFunction.apply(x, y, None, -100, 0.0, 0.1)[0]", arguments="x, y"),
    _liger("group norm", "group_norm", "LigerGroupNormFunction", "torch.randn(8, 32, 784)",
           "F.group_norm(x, 8, self.weight, self.bias, 1e-5)",
           "LigerGroupNormFunction.apply(x, self.weight, self.bias, 32, 8, 1e-5)",
           state="self.weight = nn.Parameter(torch.rand(32) + 0.5); self.bias = nn.Parameter(torch.randn(32))"),
    _liger("KL divergence", "kl_div", "LigerKLDivLossFunction", PROBABILITIES,
           'F.kl_div(x, y, reduction="batchmean")', "LigerKLDivLossFunction.apply(x, y)", arguments="x, y"),
    _liger("Jensen-Shannon divergence", "jsd", "LigerJSDFunction", LOGS,
           '(0.5 * (F.kl_div(torch.log(0.5 * (x.exp() + y.exp())), x, reduction="sum", log_target=True)'
           ' + F.kl_div(torch.log(0.5 * (x.exp() + y.exp())), y, reduction="sum", log_target=True))) / x.shape[0]',
           "LigerJSDFunction.apply(x, y)", arguments="x, y"),
    _liger("total variation distance", "tvd", "LigerTVDLossFunction",
           "torch.randn(256, 1000).softmax(-1), torch.randn(256, 1000).softmax(-1)",
           "0.5 * (x - y).abs().sum() / x.shape[0]", "LigerTVDLossFunction.apply(x, y)", arguments="x, y"),
    _liger("dynamic tanh", "dyt", "LigerDyTFunction", SEQUENCES,
           "self.weight * torch.tanh(self.alpha * x) + self.bias",
           "LigerDyTFunction.apply(x, self.alpha, self.weight, self.bias)",
           state=AFFINE + "; self.alpha = nn.Parameter(torch.tensor([0.5]))"),
    _liger("softmax", "softmax", "LigerSoftmaxFunction", ROWS, "torch.softmax(x, -1)",
           "LigerSoftmaxFunction.apply(x)"),
    _liger("sparsemax", "sparsemax", "LigerSparsemaxFunction", "torch.randn(128, 256)",
           "torch.clamp(x - tau(x), min=0.0)", "LigerSparsemaxFunction.apply(x, -1)", defined=_TAU),
    _liger("added, RMS norm", "fused_add_rms_norm", "LigerFusedAddRMSNormFunction",
           "torch.randn(4, 128, 768), torch.randn(4, 128, 768)",
           "(self.weight * ((x + y) * torch.rsqrt((x + y).pow(2).mean(-1, keepdim=True) + 1e-6)), x + y)",
           "LigerFusedAddRMSNormFunction.apply(x, y, self.weight, 1e-6)", state=WEIGHT, arguments="x, y"),
    _liger("squared ReLU", "relu_squared", "LigerReLUSquaredFunction", SEQUENCES, "F.relu(x) ** 2",
           "LigerReLUSquaredFunction.apply(x)"),
    _liger("polynomial norm", "poly_norm", "LigerPolyNormFunction", SEQUENCES,
           "self.w[0] * normed(x ** 3) + self.w[1] * normed(x ** 2) + self.w[2] * normed(x) + self.b",
           "LigerPolyNormFunction.apply(x, self.w, self.b, 1e-6)",
           state="self.w = nn.Parameter(torch.ones(3) / 3); self.b = nn.Parameter(torch.ones(1))", defined=_NORMED),
    _liger("causal mask and softmax", "multi_token_attention", "LigerMultiTokenAttentionFunction",
           "torch.randn(2, 4, 64, 64)",
           "masked(F.conv2d(masked(x, -1e9).softmax(-1), self.weight, self.bias, padding=1), 0.0)",
           "LigerMultiTokenAttentionFunction.apply(x, self.weight, self.bias, 1, 1)",
           state="self.weight = nn.Parameter(torch.randn(4, 4, 3, 3) * 0.2); self.bias = nn.Parameter(torch.randn(4))",
           defined=_MASKED),
    _liger("linear and cross entropy", "fused_linear_cross_entropy", "LigerFusedLinearCrossEntropyFunction",
           "torch.randn(256, 128), torch.randint(0, 1000, (256,))", "F.cross_entropy(x @ self.weight.t(), y)",
           "LigerFusedLinearCrossEntropyFunction.apply(x, self.weight, y)[0]",
           state="self.weight = nn.Parameter(torch.randn(1000, 128) * 0.1)", arguments="x, y"),
)  # fmt: skip
