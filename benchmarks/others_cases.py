"""Which kernels of other projects are judged, each against what torch computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Project:
    """A repository; `packages`: the folder in it that holds the package."""

    repository: str
    packages: str = "."
    given: Mapping[str, str] = field(default_factory=dict)
    """Names that choose between devices or versions while they are imported, as text for an NVIDIA GPU."""


LIGER = Project(
    "linkedin/Liger-Kernel",
    "src",
    {
        "is_npu_available": "def is_npu_available():\n    return False",
        "infer_device": 'def infer_device():\n    return "cuda"',
        "infer_device_arch": 'def infer_device_arch():\n    return "hopper"',
    },
)
ATTORCH = Project("BobMcDear/attorch")
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
FLA = Project(
    "fla-org/flash-linear-attention",
    ".",
    {
        "dispatch": "def dispatch(operation):\n    return lambda function: function",
        "input_guard": "def input_guard(function):\n    return function",
        "fla_cache_autotune": "import triton\nfla_cache_autotune = triton.autotune",
        "autotune_cache_kwargs": "autotune_cache_kwargs = {}",
        "IS_AMD": "IS_AMD = False",
        "get_multiprocessor_count": "def get_multiprocessor_count(index=0):\n    return 132",
        "exp": "import triton\nimport triton.language as tl\n\n@triton.jit\ndef exp(x):\n    return tl.exp(x.to(tl.float32))",
        "check_shared_mem": "def check_shared_mem(arch='none', index=0):\n    return True",
    },
)


@dataclass(frozen=True)
class Case:
    """A forward of torch, and the same with a kernel of `project`.

    `state` and `own_state`: the statements of both constructors, the second of the candidate's where it
    is another. `forward`, `kernel`: what is returned. Backward too where `train`.
    """

    name: str
    project: Project
    module: str
    takes: tuple[str, ...]
    inputs: str
    forward: str
    kernel: str
    state: str = ""
    own_state: str | None = None
    arguments: str = "x"
    train: bool = False


_ROWS = "torch.randn(512, 1000)"
_SEQUENCES = "torch.randn(4, 128, 768)"
_TWO = "torch.randn(4, 128, 1376), torch.randn(4, 128, 1376)"
_IMAGES = "torch.randn(8, 32, 28, 28)"
_CLASSES = "torch.randn(512, 1000), torch.randint(0, 1000, (512,))"
_PROBABILITIES = "torch.randn(256, 1000).log_softmax(-1), torch.randn(256, 1000).softmax(-1)"
_LOGS = "torch.randn(256, 1000).log_softmax(-1), torch.randn(256, 1000).log_softmax(-1)"
_WEIGHT = "self.weight = nn.Parameter(torch.rand(768) + 0.5)"
_AFFINE = _WEIGHT + "; self.bias = nn.Parameter(torch.randn(768) * 0.1)"
_HEADS = (
    "torch.randn(2, 8, 64, 64), torch.randn(2, 2, 64, 64), torch.randn(1, 64, 32).repeat(1, 1, 2).cos(), "
    "torch.randn(1, 64, 32).repeat(1, 1, 2).sin()"
)
_TURNED = (
    "(q * cos[:, None] + torch.cat((-q[..., 32:], q[..., :32]), -1) * sin[:, None], "
    "k * cos[:, None] + torch.cat((-k[..., 32:], k[..., :32]), -1) * sin[:, None])"
)
_RMS = "self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))"


def _calls(project: str, short: str, folder: str) -> Callable[..., Case]:
    """Cases of a project whose functions are called as they are, from modules below a folder of it."""

    def case(
        name: str, file: str, takes: str, inputs: str, forward: str, kernel: str, **more: Any
    ) -> Case:
        module = f"{folder}.{file}"
        return Case(f"{short} {name}", project, module, (takes,), inputs, forward, kernel, **more)

    return case


_liger = _calls(LIGER, "liger", "liger_kernel.ops")
_unsloth = _calls(UNSLOTH, "unsloth", "unsloth.kernels")
_fla = _calls(FLA, "fla", "fla")


def _layer(name: str, file: str, kind: str, made: str, inputs: str, arguments: str = "x") -> Case:
    """A layer of attorch with torch's own interface."""
    return Case(
        f"attorch {name}", ATTORCH, f"attorch.{file}", (kind,), inputs,
        f"self.layer({arguments})", f"self.layer({arguments})",
        state=f"self.layer = nn.{made}", own_state=f"self.layer = {made}", arguments=arguments,
    )  # fmt: skip


_ACTIVATIONS = (
    "Sigmoid()", "LogSigmoid()", "Tanh()", "ReLU()", "GELU()", "SiLU()", "ReLU6()", "Hardsigmoid()", "Hardtanh()",
    "Hardswish()", "SELU()", "Mish()", "Softplus()", "Softsign()", "Tanhshrink()", "LeakyReLU(negative_slope=0.1)", "ELU()", "CELU()",
    "Hardshrink()", "Softshrink()",
)  # fmt: skip

CASES = (
    _liger("RMS norm", "rms_norm", "LigerRMSNormFunction", _SEQUENCES, _RMS,
           "LigerRMSNormFunction.apply(x, self.weight, 1e-6)", state=_WEIGHT),
    _liger("RMS norm of gemma", "rms_norm", "LigerRMSNormFunction", _SEQUENCES,
           "(1.0 + self.weight) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))",
           'LigerRMSNormFunction.apply(x, self.weight, 1e-6, 1.0, "gemma")', state=_WEIGHT),
    _liger("layer norm", "layer_norm", "LigerLayerNormFunction", _SEQUENCES,
           "F.layer_norm(x, (768,), self.weight, self.bias, 1e-5)",
           "LigerLayerNormFunction.apply(x, self.weight, self.bias, 1e-5)", state=_AFFINE),
    _liger("SwiGLU", "swiglu", "LigerSiLUMulFunction", _TWO, "F.silu(a) * b",
           "LigerSiLUMulFunction.apply(a, b)", arguments="a, b"),
    _liger("GeGLU", "geglu", "LigerGELUMulFunction", _TWO, 'F.gelu(a, approximate="tanh") * b',
           "LigerGELUMulFunction.apply(a, b)", arguments="a, b"),
    _liger("rotary embedding", "rope", "LigerRopeFunction", _HEADS, _TURNED,
           "LigerRopeFunction.apply(q.clone(), k.clone(), cos, sin)", arguments="q, k, cos, sin"),
    _liger("cross entropy", "cross_entropy", "LigerCrossEntropyFunction", _CLASSES, "F.cross_entropy(x, y)",
           "LigerCrossEntropyFunction.apply(x, y, None)[0]", arguments="x, y"),
    _liger("cross entropy, smoothed", "cross_entropy", "LigerCrossEntropyFunction", _CLASSES,
           "F.cross_entropy(x, y, label_smoothing=0.1)",
           "LigerCrossEntropyFunction.apply(x, y, None, -100, 0.0, 0.1)[0]", arguments="x, y"),
    _liger("group norm", "group_norm", "LigerGroupNormFunction", "torch.randn(8, 32, 784)",
           "F.group_norm(x, 8, self.weight, self.bias, 1e-5)",
           "LigerGroupNormFunction.apply(x, self.weight, self.bias, 32, 8, 1e-5)",
           state="self.weight = nn.Parameter(torch.rand(32) + 0.5); self.bias = nn.Parameter(torch.randn(32))"),
    _liger("KL divergence", "kl_div", "LigerKLDivLossFunction", _PROBABILITIES,
           'F.kl_div(x, y, reduction="batchmean")', "LigerKLDivLossFunction.apply(x, y)", arguments="x, y"),
    _liger("Jensen-Shannon divergence", "jsd", "LigerJSDFunction", _LOGS,
           '(0.5 * (F.kl_div(torch.log(0.5 * (x.exp() + y.exp())), x, reduction="sum", log_target=True)'
           ' + F.kl_div(torch.log(0.5 * (x.exp() + y.exp())), y, reduction="sum", log_target=True))) / x.shape[0]',
           "LigerJSDFunction.apply(x, y)", arguments="x, y"),
    _liger("total variation distance", "tvd", "LigerTVDLossFunction",
           "torch.randn(256, 1000).softmax(-1), torch.randn(256, 1000).softmax(-1)",
           "0.5 * (x - y).abs().sum() / x.shape[0]", "LigerTVDLossFunction.apply(x, y)", arguments="x, y"),
    _liger("dynamic tanh", "dyt", "LigerDyTFunction", _SEQUENCES,
           "self.weight * torch.tanh(self.alpha * x) + self.bias",
           "LigerDyTFunction.apply(x, self.alpha, self.weight, self.bias)",
           state=_AFFINE + "; self.alpha = nn.Parameter(torch.tensor([0.5]))"),
    _liger("softmax", "softmax", "LigerSoftmaxFunction", _ROWS, "torch.softmax(x, -1)",
           "LigerSoftmaxFunction.apply(x)"),
    _liger("sparsemax", "sparsemax", "LigerSparsemaxFunction", "torch.randn(128, 256)",
           "torch.clamp(x - tau(x), min=0.0)", "LigerSparsemaxFunction.apply(x, -1)"),
    _liger("added, RMS norm", "fused_add_rms_norm", "LigerFusedAddRMSNormFunction",
           "torch.randn(4, 128, 768), torch.randn(4, 128, 768)",
           "(self.weight * ((x + y) * torch.rsqrt((x + y).pow(2).mean(-1, keepdim=True) + 1e-6)), x + y)",
           "LigerFusedAddRMSNormFunction.apply(x, y, self.weight, 1e-6)", state=_WEIGHT, arguments="x, y"),
    _liger("squared ReLU", "relu_squared", "LigerReLUSquaredFunction", _SEQUENCES, "F.relu(x) ** 2",
           "LigerReLUSquaredFunction.apply(x)"),
    _liger("polynomial norm", "poly_norm", "LigerPolyNormFunction", _SEQUENCES,
           "self.w[0] * normed(x ** 3) + self.w[1] * normed(x ** 2) + self.w[2] * normed(x) + self.b",
           "LigerPolyNormFunction.apply(x, self.w, self.b, 1e-6)",
           state="self.w = nn.Parameter(torch.ones(3) / 3); self.b = nn.Parameter(torch.ones(1))"),
    _liger("causal mask and softmax", "multi_token_attention", "LigerMultiTokenAttentionFunction",
           "torch.randn(2, 4, 64, 64)",
           "masked(F.conv2d(masked(x, -1e9).softmax(-1), self.weight, self.bias, padding=1), 0.0)",
           "LigerMultiTokenAttentionFunction.apply(x, self.weight, self.bias, 1, 1)",
           state="self.weight = nn.Parameter(torch.randn(4, 4, 3, 3) * 0.2); self.bias = nn.Parameter(torch.randn(4))"),
    _liger("linear and cross entropy", "fused_linear_cross_entropy", "LigerFusedLinearCrossEntropyFunction",
           "torch.randn(256, 128), torch.randint(0, 1000, (256,))", "F.cross_entropy(x @ self.weight.t(), y)",
           "LigerFusedLinearCrossEntropyFunction.apply(x, self.weight, y)[0]",
           state="self.weight = nn.Parameter(torch.randn(1000, 128) * 0.1)", arguments="x, y"),
    *(_layer(made.split("(")[0], "act_layers", made.split("(")[0], made, _ROWS) for made in _ACTIVATIONS),
    _layer("softmax", "softmax_layers", "Softmax", "Softmax(-1)", _ROWS),
    _layer("log softmax", "softmax_layers", "LogSoftmax", "LogSoftmax(-1)", _ROWS),
    _layer("softmin", "softmax_layers", "Softmin", "Softmin(-1)", _ROWS),
    _layer("layer norm", "layer_norm_layer", "LayerNorm", "LayerNorm(768)", _SEQUENCES),
    _layer("RMS norm", "rms_norm_layer", "RMSNorm", "RMSNorm(768)", _SEQUENCES),
    _layer("GLU", "glu_layer", "GLU", "GLU(-1)", _SEQUENCES),
    _layer("batch norm", "batch_norm_layer", "BatchNorm2d", "BatchNorm2d(32)", _IMAGES),
    _layer("convolution", "conv_layer", "Conv2d", "Conv2d(32, 64, 3, padding=1)", _IMAGES),
    _layer("strided convolution in groups", "conv_layer", "Conv2d", "Conv2d(32, 64, 3, stride=2, groups=2)", _IMAGES),
    _layer("NLL loss", "nll_loss_layer", "NLLLoss", "NLLLoss()", _CLASSES, "x, y"),
    _layer("cross entropy", "cross_entropy_loss_layer", "CrossEntropyLoss", "CrossEntropyLoss()", _CLASSES, "x, y"),
    _layer("L1 loss", "p_loss_layers", "L1Loss", "L1Loss()", _TWO, "x, y"),
    _layer("MSE loss", "p_loss_layers", "MSELoss", "MSELoss()", _TWO, "x, y"),
    _layer("Huber loss", "p_loss_layers", "HuberLoss", "HuberLoss()", _TWO, "x, y"),
    Case("attorch linear and GELU", ATTORCH, "attorch.linear_layer", ("LinearAutoGrad",), "torch.randn(512, 256)",
         "F.gelu(F.linear(x, self.weight, self.bias))",
         'LinearAutoGrad.apply(x, self.weight.t(), self.bias, "gelu")',
         state="self.weight = nn.Parameter(torch.randn(384, 256) * 0.1); self.bias = nn.Parameter(torch.randn(384))"),
    Case("attorch attention", ATTORCH, "attorch.multi_head_attention_kernels", ("_attention",),
         "torch.randn(2, 4, 256, 64).half(), torch.randn(2, 4, 256, 64).half(), torch.randn(2, 4, 256, 64).half()",
         "F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.125)",
         "_attention.apply(q, k, v, True, 0.125, False)", arguments="q, k, v"),
    _unsloth("RMS norm", "rms_layernorm", "Fast_RMS_Layernorm", _SEQUENCES, _RMS,
             "Fast_RMS_Layernorm.apply(x, self.weight, 1e-6, False)", state=_WEIGHT),
    _unsloth("layer norm", "layernorm", "Fast_Layernorm", _SEQUENCES,
             "F.layer_norm(x, (768,), self.weight, self.bias, 1e-5)",
             "Fast_Layernorm.apply(x, self.weight, self.bias, 1e-5)", state=_AFFINE),
    _unsloth("SwiGLU", "swiglu", "swiglu_fg_kernel", _TWO, "F.silu(a) * b", "swiglu_fg_kernel(a, b)",
             arguments="a, b"),
    _unsloth("GeGLU", "geglu", "geglu_exact_forward_kernel", _TWO, "F.gelu(a) * b",
             "geglu_exact_forward_kernel(a, b)", arguments="a, b"),
    _unsloth("GeGLU with tanh", "geglu", "geglu_approx_forward_kernel", _TWO, 'F.gelu(a, approximate="tanh") * b',
             "geglu_approx_forward_kernel(a, b)", arguments="a, b"),
    _unsloth("cross entropy", "cross_entropy_loss", "Fast_CrossEntropyLoss", _CLASSES,
             'F.cross_entropy(x, y, reduction="none")', "Fast_CrossEntropyLoss.apply(x, y, 0, 0)", arguments="x, y"),
    _fla("L2 norm", "modules.l2norm", "l2norm_fwd", "torch.randn(4, 128, 128)",
         "x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)", "l2norm_fwd(x)[0]"),
    _fla("layer norm, narrow", "modules.layernorm", "layer_norm_fwd", "torch.randn(1024, 256)",
         "F.layer_norm(x, (256,), self.weight, self.bias, 1e-5)",
         "layer_norm_fwd(x, self.weight, self.bias, 1e-5)[0]",
         state="self.weight = nn.Parameter(torch.rand(256) + 0.5); self.bias = nn.Parameter(torch.randn(256))"),
    _fla("layer norm, wide", "modules.layernorm", "layer_norm_fwd", "torch.randn(512, 768)",
         "F.layer_norm(x, (768,), self.weight, self.bias, 1e-5)",
         "layer_norm_fwd(x, self.weight, self.bias, 1e-5)[0]", state=_AFFINE),
    _fla("swish", "modules.activations", "swish_fwd", _SEQUENCES, "F.silu(x)", "swish_fwd(x)"),
    _fla("sigmoid", "modules.activations", "sigmoid_fwd", _SEQUENCES, "torch.sigmoid(x)", "sigmoid_fwd(x)"),
    _fla("SwiGLU", "modules.activations", "swiglu_fwd", _TWO, "F.silu(a) * b", "swiglu_fwd(a, b)", arguments="a, b"),
    _fla("softmax", "ops.utils.softmax", "softmax_fwd", _ROWS, "torch.softmax(x, -1)", "softmax_fwd(x)"),
    _fla("cumulative sum", "ops.utils.cumsum", "chunk_global_cumsum_vector", "torch.randn(2, 128, 4, 32)",
         "x.cumsum(1)", "chunk_global_cumsum_vector(x)"),
    _fla("cumulative sum in chunks", "ops.utils.cumsum", "chunk_local_cumsum_vector", "torch.randn(2, 128, 4, 32)",
         "x.view(2, 2, 64, 4, 32).cumsum(2).view(2, 128, 4, 32)", "chunk_local_cumsum_vector(x, 64)"),
    _fla("gated recurrence", "ops.hgrn.fused_recurrent", "fused_recurrent_hgrn_fwd",
         "torch.randn(2, 32, 128), F.logsigmoid(torch.randn(2, 32, 128))", "recurrence(x, g)",
         "fused_recurrent_hgrn_fwd(x, g)[0]", arguments="x, g"),
)  # fmt: skip

DEFINED = """
def tau(x):
    z = torch.sort(x, -1, descending=True).values
    sums = z.cumsum(-1) - 1
    k = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    held = (z * k > sums).sum(-1, keepdim=True)
    return sums.gather(-1, held - 1) / held


def normed(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def masked(x, value):
    later = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return x.masked_fill(later, value)


def recurrence(x, g):
    state, rows = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = g[:, t].exp() * state + x[:, t]
        rows.append(state)
    return torch.stack(rows, 1)
"""
"""What the references call that torch has not."""
