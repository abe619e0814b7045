"""FlagGems: ATen's operators, each with launches of its own."""

from __future__ import annotations

from typing import Any

from benchmarks.others.cases.case import (
    AFFINE,
    CLASSES,
    IMAGES,
    ROWS,
    SEQUENCES,
    TWO,
    WEIGHT,
    Case,
    Project,
)

# The package reads its configurations from a table for the card it is imported on; these are ours.
_TUNED = """
import triton

def get_tuned_config(name):
    blocks = {
        "naive_reduction": ({"BLOCK_M": 4, "BLOCK_N": 512}, {"BLOCK_M": 8, "BLOCK_N": 1024}),
        "var_mean": ({"BLOCK_M": 4, "BLOCK_N": 512}, {"BLOCK_M": 1, "BLOCK_N": 1024}),
        "vector_norm": ({"BLOCK_M": 4, "BLOCK_N": 512}, {"BLOCK_M": 1, "BLOCK_N": 1024}),
        "softmax_inner": ({"TILE_N": 256}, {"TILE_N": 1024}),
        "softmax_non_inner": ({"TILE_K": 32}, {"TILE_K": 128}),
        "log_softmax": ({"BLOCK_M": 8, "BLOCK_N": 256}, {"BLOCK_M": 16, "BLOCK_N": 512}),
        "layer_norm_persistent": ({},),
        "layer_norm_loop": ({"TILE_N": 1024}, {"TILE_N": 2048}),
        "layer_norm_backward": ({"BLOCK_ROW_SIZE": 4, "BLOCK_COL_SIZE": 1024},),
        "weight_bias_backward": ({"BLOCK_ROW_SIZE": 64, "BLOCK_COL_SIZE": 16},),
        "batch_norm": ({},),
        "cross_entropy_loss": ({"BLOCK_C": 256, "BLOCK_D": 1}, {"BLOCK_C": 512, "BLOCK_D": 4}),
        "cross_entropy_loss_sum_and_scale": ({"BLOCK_N": 256},),
        "weight_norm_kernel_first": ({"BLOCK_ROW_SIZE": 8, "BLOCK_COL_SIZE": 256},),
        "weight_norm_kernel_last": ({"BLOCK_ROW_SIZE": 128, "BLOCK_COL_SIZE": 16},),
        "mv": ({"BLOCK_N": 32, "BLOCK_M": 128}, {"BLOCK_N": 64, "BLOCK_M": 64}),
        "addmm": ({"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32},),
        "bmm": (
            {"TILE_M": 32, "TILE_N": 64, "TILE_K": 32, "GROUP_M": 1},
            {"TILE_M": 64, "TILE_N": 32, "TILE_K": 32, "GROUP_M": 2},
        ),
        "mm": ({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}, {"BLOCK_M": 32, "BLOCK_N": 128, "BLOCK_K": 64}),
        "kron": ({"BLOCK_M": 32, "BLOCK_N": 64},),
        "triu": ({"M_BLOCK_SIZE": 8, "N_BLOCK_SIZE": 128},),
        "triu_batch": ({"BATCH_BLOCK_SIZE": 8, "MN_BLOCK_SIZE": 512},),
        "count_nonzero": ({"BLOCK_SIZE": 1024},),
        "upsample_nearest2d": ({"BLOCK_SIZE": 512},),
        "upsample_bicubic2d_aa": ({"BLOCK_X": 32, "BLOCK_Y": 8},),
        "conv2d_forward": ({"BLOCK_NI_HO_WO": 64, "BLOCK_CI": 32, "BLOCK_CO": 32},),
        "conv2d_backward_weight": ({"BLOCK_NO": 32, "BLOCK_CI_HK_WK": 32, "BLOCK_CO": 32},),
        "conv3d_forward": ({"BLOCK_NI_DO_HO_WO": 64, "BLOCK_CI": 32, "BLOCK_CO": 32},),
        "instancenorm": ({},),
        "instance_norm_loop": ({"TILE_N": 1024},),
        "instance_norm_backward": ({"BLOCK_ROW_SIZE": 4, "BLOCK_COL_SIZE": 1024},),
        "instance_norm_weight_bias_backward": ({"BLOCK_BATCH_SIZE": 4, "BLOCK_COL_SIZE": 256},),
        "attention": ({"BLOCK_M": 64, "BLOCK_N": 32, "PRE_LOAD_V": False},),
    }[name]
    return [triton.Config(block, num_warps=4, num_stages=2) for block in blocks]
"""
# Those for which no table is needed are the package's own.
_HEURISTICS = """
from flag_gems.runtime.backend._nvidia.heuristics_config_utils import HEURISTICS_CONFIGS

def get_heuristic_config(name):
    return HEURISTICS_CONFIGS[name]
"""
GEMS = Project(
    "FlagOpen/FlagGems",
    "src",
    {
        "get_tuned_config": _TUNED,
        "get_heuristic_config": _HEURISTICS,
        "libentry": "def libentry():\n    return lambda kernel: kernel",
        "libtuner": (
            "import triton\n\ndef libtuner(configs, key, **others):\n    return triton.autotune(configs=configs, key=key)"
        ),
        "torch_device_fn": "import torch\ntorch_device_fn = torch.cuda",
        "device": 'from types import SimpleNamespace\ndevice = SimpleNamespace(name="cuda", vendor_name="nvidia")',
        "tl_extra_shim": "from triton.language.extra import libdevice\ntl_extra_shim = libdevice",
        "use_tl_extra": (
            "from triton.language.extra import libdevice\n\ndef use_tl_extra(function):\n"
            "    return getattr(libdevice, function.__name__, function)"
        ),
        "get_device_properties": "import torch\nget_device_properties = torch.cuda.get_device_properties",
        # Its launches are made as text while a program runs; a case's own launch stands for them.
        "pointwise_dynamic": (
            "def pointwise_dynamic(function=None, **how):\n"
            "    return (lambda function: function) if function is None else function"
        ),
    },
)


def _gems(
    name: str,
    file: str,
    takes: str,
    inputs: str,
    forward: str,
    kernel: str,
    **more: Any,
) -> Case:
    module = f"flag_gems.{file if '.' in file else 'ops.' + file}"
    return Case(f"gems {name}", GEMS, module, tuple(takes.split()), inputs, forward, kernel, **more)


def _elementwise(function: str, count: int = 1) -> str:
    """A launch of a function of `count` numbers over all elements."""
    names = [f"x{i}" for i in range(count)]
    loads = ", ".join(f"tl.load({name} + i, mask=i < n)" for name in names)
    return f"""
@triton.jit
def each({", ".join(names)}, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, {function}({loads}), mask=i < n)


def launched({", ".join(names)}):
    out = torch.empty_like(x0)
    each[(triton.cdiv(out.numel(), 1024),)]({", ".join(names)}, out, out.numel(), BLOCK=1024)
    return out
"""


_LAYER_NORM = """
class Normed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        y, mean, rstd = layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)
        ctx.save_for_backward(x, mean, rstd, weight, bias)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, mean, rstd, weight, bias = ctx.saved_tensors
        return layer_norm_backward(dy, x, (x.shape[-1],), mean, rstd, weight, bias, ctx.needs_input_grad)
"""
_GROUP_NORM = """
class Normed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        y, mean, rstd = group_norm(x, weight, bias, x.shape[0], x.shape[1], x.shape[2], 4, 1e-5)
        ctx.save_for_backward(x, mean, rstd, weight)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, mean, rstd, weight = ctx.saved_tensors
        return group_norm_backward(dy, x, mean, rstd, weight, x.shape[0], x.shape[1], x.shape[2], 4, ctx.needs_input_grad)
"""
_SOFTMAX = """
class Softmaxed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        y = softmax(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        return softmax_backward(dy, y, ctx.dim, y.dtype), None
"""
_LOG_SOFTMAX = _SOFTMAX.replace("softmax", "log_softmax")
_EMBEDDING = """
class Embedded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, ids):
        ctx.save_for_backward(ids)
        ctx.rows = weight.shape[0]
        return embedding(weight, ids)

    @staticmethod
    def backward(ctx, dy):
        (ids,) = ctx.saved_tensors
        return embedding_backward(dy.contiguous(), ids, ctx.rows, None), None
"""
_WEIGHT_NORM = """
class Normed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v, g):
        w, norm = weight_norm_interface(v, g, 0)
        ctx.save_for_backward(v, g, norm)
        return w

    @staticmethod
    def backward(ctx, dw):
        v, g, norm = ctx.saved_tensors
        return weight_norm_interface_backward(dw, v, g, norm, 0)
"""
_INSTANCE_NORM = """
def normed(x, weight, bias):
    return instance_norm(x, weight, bias, None, None, True, 0.1, 1e-5)
"""
_GATED = """
def gated(x):
    weights = torch.empty(x.shape[0], 4, device=x.device)
    experts = torch.empty(x.shape[0], 4, dtype=torch.int32, device=x.device)
    rows = torch.empty_like(experts)
    topk_softmax(weights, experts, rows, x)
    return weights, experts.long()
"""
_TURNED = """
def turned(x, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def turned_in_pairs(x, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
"""
_ATTENTION = "torch.randn(2, 4, 128, 64).half(), torch.randn(2, 4, 128, 64).half(), torch.randn(2, 4, 128, 64).half()"
_QUERIES = (
    "torch.randn(2, 64, 4, 64), torch.randn(2, 64, 2, 64), torch.rand(64, 32), torch.rand(64, 32)"
)
_CONVOLVED = "self.weight = nn.Parameter(torch.randn(32, {}) * 0.1); self.bias = nn.Parameter(torch.randn(32))"
_ALIGNED = """
def aligned(ids):
    flat, experts, block = ids.flatten(), 8, 16
    room = flat.numel() + experts * (block - 1)
    counts = torch.bincount(flat, minlength=experts)
    blocks = (counts + block - 1) // block
    starts = (blocks.cumsum(0) - blocks) * block
    order = torch.sort(flat, stable=True).indices
    place = torch.arange(flat.numel(), device=flat.device) - (counts.cumsum(0) - counts)[flat[order]] + starts[flat[order]]
    tokens = torch.full((room,), flat.numel(), dtype=torch.int32, device=flat.device)
    tokens[place] = order.int()
    held = (room + block - 1) // block
    ends = blocks.cumsum(0)
    owner = torch.searchsorted(ends, torch.arange(held, device=flat.device), right=True)
    owner = torch.where(owner < experts, owner, 0).int()
    return tokens, owner, (blocks.sum() * block).int()[None]
"""
_CHANNELS = "self.weight = nn.Parameter(torch.rand(32) + 0.5); self.bias = nn.Parameter(torch.randn(32) * 0.1)"
_RUNNING = (
    _CHANNELS
    + '; self.register_buffer("mean", torch.randn(32)); self.register_buffer("var", torch.rand(32) + 0.5)'
)
_MASK = "torch.randn(64, 256), torch.rand(64, 256) > 0.5"
_LIGHT = "torch.randn(64, 96)"

_OF_SQUARES = "takes the square of the mean from the squares: at a mean of 100 and a deviation of 1 variances are a thousandth off"
_FROM_ZERO = (
    "its running maximum begins at zero: where all logits lie below -104 the loss is infinite"
)
_UNORDERED = "the last program reads what others add by atomics with plain loads, which nothing makes show them (a race by PTX's memory model)"
_WAITING = "hands counts on by plain stores that volatile loads wait for: GPUs show them, PTX's memory model calls it a race"

CASES = (
    _gems("sum of all", "sum", "sum", ROWS, "x.sum()", "sum(x)"),
    _gems("sum over the last", "sum", "sum_dim", ROWS, "x.sum(-1)", "sum_dim(x, [-1])"),
    _gems("sum over the middle", "sum", "sum_dim", SEQUENCES, "x.sum(1)", "sum_dim(x, [1])"),
    _gems("sum over two", "sum", "sum_dim", SEQUENCES, "x.sum((0, 2))", "sum_dim(x, [0, 2])"),
    _gems("mean", "mean", "mean_dim", SEQUENCES, "x.mean((1, 2))", "mean_dim(x, [1, 2])"),
    _gems("variance and mean by Welford", "var_mean", "var_mean", ROWS, "torch.var_mean(x, -1)", "var_mean(x, [-1])",
          fault=_OF_SQUARES),
    _gems("variance and mean of all", "var_mean", "var_mean", ROWS, "torch.var_mean(x)", "var_mean(x)"),
    _gems("standard deviation of all", "std", "std", ROWS, "x.std()", "std(x)"),
    _gems("standard deviation over the first", "std", "std", ROWS, "x.std(0)", "std(x, [0])"),
    _gems("argmax of all", "argmax", "argmax", ROWS, "x.argmax()", "argmax(x)"),
    _gems("argmax over the first", "argmax", "argmax", ROWS, "x.argmax(0)", "argmax(x, 0)"),
    _gems("argmin", "argmin", "argmin", ROWS, "x.argmin(-1)", "argmin(x, -1)"),
    _gems("max with places", "max", "max_dim", ROWS, "tuple(x.max(1))", "tuple(max_dim(x, 1))"),
    _gems("amax over two", "amax", "amax", SEQUENCES, "x.amax((0, 2))", "amax(x, [0, 2])"),
    _gems("all over the last", "all", "all_dim", "torch.rand(256, 300) > 0.003", "x.all(-1)", "all_dim(x, -1)"),
    _gems("any over two", "any", "any_dims", "torch.rand(64, 8, 40) > 0.998", "x.any(2).any(1)", "any_dims(x, [1, 2])"),
    _gems("product over the last", "prod", "prod_dim", "torch.rand(256, 48) + 0.5", "x.prod(-1)", "prod_dim(x, -1)"),
    _gems("product of all", "prod", "prod", "torch.rand(30, 40) * 0.2 + 0.9", "x.prod()", "prod(x)"),
    _gems("cumulative sum of rows", "cumsum", "cumsum", ROWS, "x.cumsum(-1)", "cumsum(x, -1)"),
    _gems("cumulative sum of long rows", "cumsum", "cumsum", "torch.randn(2, 20000)", "x.cumsum(-1)", "cumsum(x, -1)"),
    _gems("cumulative sum of columns", "cumsum", "cumsum", "torch.randn(2, 5000, 8)", "x.cumsum(1)", "cumsum(x, 1)"),
    _gems("normed cumulative sum", "cumsum", "normed_cumsum", "torch.rand(16, 1000)",
          "x.cumsum(-1) / x.sum(-1, keepdim=True)", "normed_cumsum(x, -1)"),
    _gems("cumulative maximum", "cummax", "cummax", "torch.randn(8, 500, 16)", "tuple(x.cummax(1))",
          "tuple(cummax(x, 1))"),
    _gems("cumulative minimum of many blocks", "cummin", "cummin", "torch.randn(6000)", "tuple(x.cummin(0))",
          "tuple(cummin(x, 0))"),
    _gems("softmax of rows", "softmax", "softmax softmax_backward", ROWS, "torch.softmax(x, -1)",
          "Softmaxed.apply(x, -1)", own_defined=_SOFTMAX, train=True),
    _gems("softmax over the middle", "softmax", "softmax softmax_backward", "torch.randn(4, 128, 192)",
          "torch.softmax(x, 1)", "Softmaxed.apply(x, 1)", own_defined=_SOFTMAX, train=True),
    _gems("log softmax over the middle", "log_softmax", "log_softmax log_softmax_backward", "torch.randn(4, 128, 48)",
          "torch.log_softmax(x, 1)", "Softmaxed.apply(x, 1)", own_defined=_LOG_SOFTMAX, train=True),
    _gems("layer norm with its backward", "layernorm", "layer_norm layer_norm_backward", "torch.randn(64, 768)",
          "F.layer_norm(x, (768,), self.weight, self.bias, 1e-5)", "Normed.apply(x, self.weight, self.bias)",
          state=AFFINE, own_defined=_LAYER_NORM, train=True),
    _gems("layer norm of short rows", "layernorm", "layer_norm", "torch.randn(1000, 96)",
          "F.layer_norm(x, (96,), None, None, 1e-5)", "layer_norm(x, (96,), None, None, 1e-5)[0]"),
    _gems("layer norm of long rows", "layernorm", "layer_norm", "torch.randn(16, 5000)",
          "F.layer_norm(x, (5000,), None, None, 1e-5)", "layer_norm(x, (5000,), None, None, 1e-5)[0]"),
    _gems("group norm with its backward", "groupnorm", "group_norm group_norm_backward", "torch.randn(4, 32, 196)",
          "F.group_norm(x, 4, self.weight, self.bias, 1e-5)", "Normed.apply(x, self.weight, self.bias)",
          state=_CHANNELS, own_defined=_GROUP_NORM, train=True),
    _gems("batch norm", "batch_norm", "batch_norm", IMAGES,
          "F.batch_norm(x, self.mean, self.var, self.weight, self.bias)",
          "batch_norm(x, self.weight, self.bias, self.mean, self.var)[0]", state=_RUNNING),
    _gems("RMS norm with its backward", "rms_norm", "rms_norm", "torch.randn(64, 768)",
          "F.rms_norm(x, (768,), self.weight, 1e-5)", "rms_norm(x, (768,), self.weight, 1e-5)", state=WEIGHT, train=True),
    _gems("cross entropy", "fused.cross_entropy_loss", "cross_entropy_loss", CLASSES, "F.cross_entropy(x, y)",
          "cross_entropy_loss(x, y)", arguments="x, y", train=True, fault=_FROM_ZERO),
    _gems("cross entropy of probabilities", "fused.cross_entropy_loss", "cross_entropy_loss",
          "torch.randn(64, 300), torch.randn(64, 300).softmax(-1)", "F.cross_entropy(x, y)",
          "cross_entropy_loss(x, y)", arguments="x, y", fault=_FROM_ZERO),
    _gems("NLL loss", "nllloss", "nll_loss_forward", CLASSES, "F.nll_loss(x, y)", "nll_loss_forward(x, y)[0]",
          arguments="x, y", fault=_UNORDERED),
    _gems("matrix and vector", "mv", "mv", "torch.randn(300, 500), torch.randn(500)", "torch.mv(x, y)", "mv(x, y)",
          arguments="x, y"),
    _gems("matrices", "mm", "mm", "torch.randn(200, 150), torch.randn(150, 100)", "x @ y", "mm(x, y)", arguments="x, y"),
    _gems("matrices in batches", "bmm", "bmm", "torch.randn(4, 100, 64), torch.randn(4, 64, 72)", "torch.bmm(x, y)",
          "bmm(x, y)", arguments="x, y"),
    _gems("bias and matrices", "addmm", "addmm", "torch.randn(128, 96)",
          "torch.addmm(self.bias, x, self.weight.t(), beta=0.5, alpha=2.0)",
          "addmm(self.bias, x, self.weight.t(), beta=0.5, alpha=2.0)",
          state="self.weight = nn.Parameter(torch.randn(80, 96)); self.bias = nn.Parameter(torch.randn(80))"),
    _gems("sort by digits", "sort", "sort", "torch.randn(2, 3000)", "tuple(torch.sort(x, dim=-1, stable=True))", "tuple(sort(x))",
          limit=_WAITING),
    _gems("sort of integers, descending", "sort", "sort", "torch.randint(-1000, 1000, (4, 700)).int()",
          "torch.sort(x, -1, descending=True).values", "sort(x, -1, True)[0]", limit=_WAITING),
    _gems("largest of rows", "topk", "topk", "torch.randn(16, 2000)", "tuple(x.topk(8))", "tuple(topk(x, 8))"),
    _gems("places of distinct values", "unique", "_unique2", "torch.randint(0, 200, (3000,))",
          "torch.unique(x, return_inverse=True)[1]", "_unique2(x, True, True)[1]"),
    _gems("places of distinct values of many blocks", "unique", "_unique2", "torch.randint(0, 500, (10000,))",
          "torch.unique(x, return_inverse=True)[1]", "_unique2(x, True, True)[1]"),
    _gems("is in, by comparison", "isin", "isin", "torch.randint(0, 1000, (64, 100)), torch.randint(0, 1000, (40,))",
          "torch.isin(x, y)", "isin(x, y)", arguments="x, y"),
    _gems("is in, by search", "isin", "isin", "torch.randint(0, 1000, (200, 100)), torch.randint(0, 1000, (300,))",
          "torch.isin(x, y)", "isin(x, y)", arguments="x, y"),
    _gems("masked select in one block", "masked_select", "masked_select", "torch.randn(40, 50)",
          "torch.masked_select(x, self.mask)", "masked_select(x, self.mask)",
          state='self.register_buffer("mask", torch.rand(40, 50) > 0.4)'),
    _gems("masked select in many blocks", "masked_select", "masked_select", "torch.randn(100, 300)",
          "torch.masked_select(x, self.mask)", "masked_select(x, self.mask)",
          state='self.register_buffer("mask", torch.rand(100, 300) > 0.4)'),
    _gems("index select over the first", "index_select", "index_select", "torch.randn(64, 300), torch.randint(0, 64, (100,))",
          "x.index_select(0, y)", "index_select(x, 0, y)", arguments="x, y"),
    _gems("embedding with its backward", "embedding", "embedding embedding_backward", "torch.randint(0, 200, (8, 32))",
          "F.embedding(x, self.weight)", "Embedded.apply(self.weight, x)",
          state="self.weight = nn.Parameter(torch.randn(200, 96))", own_defined=_EMBEDDING, train=True),
    _gems("upsample nearest", "upsample_nearest2d", "upsample_nearest2d", "torch.randn(2, 6, 15, 17)",
          'F.interpolate(x, size=(40, 51), mode="nearest")', "upsample_nearest2d(x, (40, 51))"),
    _gems("upsample bicubic, antialiased", "upsample_bicubic2d_aa", "_upsample_bicubic2d_aa", "torch.randn(2, 3, 16, 20)",
          'F.interpolate(x, size=(37, 45), mode="bicubic", antialias=True)', "_upsample_bicubic2d_aa(x, (37, 45))"),
    _gems("downsample bicubic, antialiased", "upsample_bicubic2d_aa", "_upsample_bicubic2d_aa", "torch.randn(2, 3, 40, 36)",
          'F.interpolate(x, size=(17, 15), mode="bicubic", antialias=True)', "_upsample_bicubic2d_aa(x, (17, 15))"),
    _gems("convolution in one dimension", "conv1d", "conv1d", "torch.randn(4, 16, 100)",
          "F.conv1d(x, self.weight, self.bias, 2, 1)", "conv1d(x, self.weight, self.bias, 2, 1)",
          state=_CONVOLVED.format("16, 3")),
    _gems("convolution with its backward", "conv2d", "conv2d", "torch.randn(2, 16, 14, 14)",
          "F.conv2d(x, self.weight, self.bias, 1, 1)", "conv2d(x, self.weight, self.bias, 1, 1)",
          state=_CONVOLVED.format("16, 3, 3"), train=True),
    _gems("convolution of each channel", "conv_depthwise2d", "_conv_depthwise2d", "torch.randn(2, 32, 14, 14)",
          "F.conv2d(x, self.weight, self.bias, 1, 1, 1, 32)",
          "_conv_depthwise2d(x, self.weight, 3, self.bias, 1, 1, 1)", state=_CONVOLVED.format("1, 3, 3")),
    _gems("largest of windows", "max_pool2d_with_indices", "max_pool2d_with_indices", "torch.randn(2, 8, 30, 30)",
          "F.max_pool2d(x, 3, 2, 1, return_indices=True)", "max_pool2d_with_indices(x, 3, 2, 1)"),
    _gems("mean of windows", "avg_pool2d", "avg_pool2d", "torch.randn(2, 8, 30, 30)",
          "F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)", "avg_pool2d(x, 3, 2, 1, False, False)"),
    _gems("causal attention", "attention", "ScaleDotProductAttention", _ATTENTION,
          "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
          "ScaleDotProductAttention.apply(q, k, v, None, 0.0, True)", arguments="q, k, v"),
    _gems("upper triangle", "triu", "triu", "torch.randn(3, 60, 90)", "x.triu(1)", "triu(x, 1)"),
    _gems("diagonal matrix", "diag", "diag", "torch.randn(200)", "torch.diag(x, -3)", "diag(x, -3)"),
    _gems("trace", "trace", "trace", "torch.randn(1500, 1200)", "x.trace()", "trace(x)"),
    _gems("joined", "cat", "cat", "torch.randn(4, 30, 20), torch.randn(4, 50, 20), torch.randn(4, 7, 20)",
          "torch.cat((x, y, z, x, z), 1)", "cat((x, y, z, x, z), 1)", arguments="x, y, z"),
    _gems("complex product summed", "vdot", "vdot", "torch.randn(3000, 2), torch.randn(3000, 2)",
          "torch.view_as_real(torch.vdot(torch.view_as_complex(x), torch.view_as_complex(y)))",
          "torch.view_as_real(vdot(torch.view_as_complex(x), torch.view_as_complex(y)))", arguments="x, y"),
    _gems("dot product", "dot", "dot", "torch.randn(9000), torch.randn(9000)", "torch.dot(x, y)", "dot(x, y)",
          arguments="x, y"),
    _gems("outer product added", "addr", "addr", "torch.randn(70, 90), torch.randn(70), torch.randn(90)",
          "torch.addr(x, y, z, beta=0.5, alpha=3.0)", "addr(x, y, z, beta=0.5, alpha=3.0)", arguments="x, y, z"),
    _gems("Kronecker product", "kron", "kron", "torch.randn(2, 5, 7), torch.randn(3, 4, 6)", "torch.kron(x, y)", "kron(x, y)",
          arguments="x, y"),
    _gems("weight norm with its backward", "weightnorm", "weight_norm_interface weight_norm_interface_backward",
          "torch.randn(64, 300), torch.rand(64, 1) + 0.5", "torch._weight_norm(x, y, 0)", "Normed.apply(x, y)",
          arguments="x, y", own_defined=_WEIGHT_NORM, train=True),
    _gems("norm of rows", "vector_norm", "vector_norm", ROWS, "torch.linalg.vector_norm(x, 2, -1)", "vector_norm(x, 2, [-1])"),
    _gems("norm of the third order", "vector_norm", "vector_norm", ROWS, "torch.linalg.vector_norm(x, 3, -1)",
          "vector_norm(x, 3, [-1])"),
    _gems("largest magnitude", "vector_norm", "vector_norm", ROWS, 'torch.linalg.vector_norm(x, float("inf"))',
          'vector_norm(x, float("inf"))'),
    _gems("rotary embedding", "fused.rotary_embedding", "apply_rotary_pos_emb", _QUERIES,
          "(turned(q, cos, sin), turned(k, cos, sin))", "apply_rotary_pos_emb(q, k, cos, sin)",
          arguments="q, k, cos, sin", defined=_TURNED),
    _gems("rotary embedding of pairs", "fused.rotary_embedding", "apply_rotary_pos_emb", _QUERIES,
          "(turned_in_pairs(q, cos, sin), turned_in_pairs(k, cos, sin))",
          "apply_rotary_pos_emb(q, k, cos, sin, None, True)", arguments="q, k, cos, sin", defined=_TURNED),
    _gems("largest probabilities", "fused.topk_softmax", "topk_softmax", "torch.randn(50, 16)",
          "tuple(torch.softmax(x, -1).topk(4))", "gated(x)", own_defined=_GATED),
    _gems("tokens in blocks of experts", "fused.moe_align_block_size", "moe_align_block_size",
          "torch.randint(0, 8, (50, 2))", "aligned(x)", "moe_align_block_size(x, 16, 8)", defined=_ALIGNED),
    _gems("quantiles", "quantile", "quantile", "torch.randn(40, 200)", "torch.quantile(x, self.q, 1)",
          "quantile(x, self.q, 1)", state='self.register_buffer("q", torch.tensor([0.1, 0.5, 0.9]))'),
    _gems("number of nonzero elements", "count_nonzero", "count_nonzero", "torch.randint(0, 3, (20, 5000)).float()",
          "torch.count_nonzero(x, 1)", "count_nonzero(x, 1)"),
    _gems("instance norm with its backward", "fused.instance_norm", "instance_norm", "torch.randn(4, 32, 14, 14)",
          "F.instance_norm(x, None, None, self.weight, self.bias)", "normed(x, self.weight, self.bias)",
          state=_CHANNELS, own_defined=_INSTANCE_NORM, train=True),
    _gems("added, RMS norm in place", "fused.fused_add_rms_norm", "fused_add_rms_norm",
          "torch.randn(64, 768), torch.randn(64, 768)", "(F.rms_norm(x + y, (768,), self.weight, 1e-5), x + y)",
          "fused_add_rms_norm(x.clone(), y.clone(), (768,), self.weight, 1e-5)", state=WEIGHT, arguments="x, y"),
    _gems("added, layer norm", "fused.skip_layernorm", "skip_layer_norm", "torch.randn(64, 768), torch.randn(64, 768)",
          "F.layer_norm(x + y, (768,), self.weight, self.bias, 1e-5)",
          "skip_layer_norm(x, y, (768,), self.weight, self.bias, 1e-5)", state=AFFINE, arguments="x, y"),
    _gems("SiLU and product", "fused.silu_and_mul", "silu_and_mul_kernel", TWO, "F.silu(x) * y", "launched(x, y)",
          own_defined=_elementwise("silu_and_mul_kernel", 2), arguments="x, y"),
    _gems("GELU by tanh and product", "fused.gelu_and_mul", "gelu_tanh_and_mul_kernel", TWO,
          'F.gelu(x, approximate="tanh") * y', "launched(x, y)",
          own_defined=_elementwise("gelu_tanh_and_mul_kernel", 2), arguments="x, y"),
    _gems("log sigmoid", "log_sigmoid", "log_sigmoid_forward", SEQUENCES, "F.logsigmoid(x)", "launched(x)",
          own_defined=_elementwise("log_sigmoid_forward")),
    _gems("remainder", "div", "rem_tt", TWO, "torch.remainder(x, y)", "launched(x, y)",
          own_defined=_elementwise("rem_tt", 2), arguments="x, y"),
    _gems("floored quotient", "div", "floor_div_func", TWO, 'torch.div(x, y, rounding_mode="floor")', "launched(x, y)",
          own_defined=_elementwise("floor_div_func", 2), arguments="x, y"),
)  # fmt: skip
