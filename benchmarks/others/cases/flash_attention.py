"""flash-attention: its kernels in Triton, the norms, rotations, losses and layers beside attention among them."""

from __future__ import annotations

from benchmarks.others.cases.case import ONE_GRADIENT, Project, calls

FLASH = Project(
    "Dao-AILab/flash-attention",
    ".",
    {
        # They choose among configurations by a model that Triton no longer has; without them all are tried.
        "early_config_prune": "early_config_prune = None",
        "estimate_matmul_time": "estimate_matmul_time = None",
    },
)
_flash = calls(FLASH, "flash", "flash_attn")

_NORMED = """
def normed(x, weight, bias=None, rows=None):
    x = x.float() if rows is None else x.float() * rows[..., None]
    if bias is None:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-6)
"""
_TURNED = """
def turned(x, cos, sin, interleaved=False):
    part = 2 * cos.shape[-1]
    first, second = (x[..., 0:part:2], x[..., 1:part:2]) if interleaved else x[..., :part].chunk(2, -1)
    cos, sin = cos[..., None, :], sin[..., None, :]
    out = (first * cos - second * sin, first * sin + second * cos)
    out = torch.stack(out, -1).flatten(-2) if interleaved else torch.cat(out, -1)
    return torch.cat((out, x[..., part:]), -1)
"""
_PACKED = """
def places(ends, total):
    at = torch.arange(total, device=ends.device)
    part = torch.searchsorted(ends[1:].contiguous(), at, right=True).clamp(max=len(ends) - 2)
    return at - ends[part]
"""
_LOSSES = """
def losses(x, y, smoothing=0.0, scale=1.0, squared=0.0):
    x = x.float() * scale
    lse = torch.logsumexp(x, -1)
    at = x.gather(-1, torch.where(y == -100, 0, y)[:, None])[:, 0]
    loss = lse - (1 - smoothing) * at - smoothing * x.mean(-1)
    z = squared * lse * lse
    return torch.where(y == -100, 0.0, loss + z), torch.where(y == -100, 0.0, z)
"""
_ANGLES = "torch.rand(96, 16), torch.rand(96, 16)"
_WEIGHTS = "self.weight = nn.Parameter(torch.rand(192) + 0.5)"
_BIASED = f"{_WEIGHTS}; self.bias = nn.Parameter(torch.randn(192) * 0.1)"
_LINEAR = "self.weight = nn.Parameter(torch.randn(256, 128).half() * 0.1); self.bias = nn.Parameter(torch.randn(256).half())"
_NO_MASK = "makes a mask and stores without it: where rows or columns are no multiple of the block it writes over the next row and past the end"
_GLOBAL = "reads a global number that is no tl.constexpr, which Triton refuses since 3.0"
_QKV = ", ".join(3 * ["torch.randn(1, 256, 2, 64).half()"])
_ATTENTION = "F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True).transpose(1, 2)"
_TRANSPOSED = "tl.dot with trans_b is gone from Triton since 3.0"

CASES = (
    _flash("layer norm of a sum, trained", "ops.triton.layer_norm", "layer_norm_fn",
           "torch.randn(64, 192), torch.randn(64, 192)", "(normed(x + r, self.weight, self.bias), x + r)",
           "layer_norm_fn(x, self.weight, self.bias, r, eps=1e-6, prenorm=True)", arguments="x, r", state=_BIASED,
           defined=_NORMED, train=True, fault=ONE_GRADIENT),
    _flash("RMS norm of a sum in half precision, trained", "ops.triton.layer_norm", "rms_norm_fn",
           "torch.randn(64, 192).half(), torch.randn(64, 192), torch.rand(64)",
           "normed(x.float() * rows.detach()[:, None] + r, self.weight + 1).half()",
           "rms_norm_fn(x, self.weight, None, r, rowscale=rows, zero_centered_weight=True)",
           arguments="x, r, rows", state=_WEIGHTS, defined=_NORMED, train=True),
    _flash("two layer norms of a sum, trained", "ops.triton.layer_norm", "layer_norm_fn",
           "torch.randn(64, 192), torch.randn(64, 192)",
           "(normed(x + y, self.weight, self.bias), normed(x + y, self.second, self.beside))",
           "layer_norm_fn(x, self.weight, self.bias, x1=y, weight1=self.second, bias1=self.beside, residual_in_fp32=True)",
           arguments="x, y", defined=_NORMED, train=True, fault=ONE_GRADIENT,
           state=f"{_BIASED}; self.second = nn.Parameter(torch.rand(192)); self.beside = nn.Parameter(torch.randn(192))"),
    _flash("rotary embedding, of one place each", "ops.triton.rotary", "apply_rotary",
           f"torch.randn(4, 32, 5, 48).bfloat16(), {_ANGLES}, torch.randint(0, 64, (4,)).int()",
           "turned(x.float(), cos[at[:, None] + self.row], sin[at[:, None] + self.row]).bfloat16()",
           "apply_rotary(x, cos, sin, at)", arguments="x, cos, sin, at", defined=_TURNED,
           state='self.register_buffer("row", torch.arange(32), persistent=False)'),
    _flash("rotary embedding of pairs, trained", "layers.rotary", "apply_rotary_emb",
           f"torch.randn(2, 64, 4, 48), {_ANGLES}", "turned(x, cos[:64].detach(), sin[:64].detach(), True)",
           "apply_rotary_emb(x, cos, sin, True)", arguments="x, cos, sin", defined=_TURNED, train=True),
    _flash("rotary embedding of packed sequences", "ops.triton.rotary", "apply_rotary",
           f"torch.randn(160, 4, 32), {_ANGLES}, torch.tensor([0, 40, 104, 160], dtype=torch.int32)",
           "turned(x, cos[places(ends, 160)], sin[places(ends, 160)])",
           "apply_rotary(x, cos, sin, 0, ends, 96)", arguments="x, cos, sin, ends",
           defined=_TURNED + _PACKED),
    _flash("cross entropy, smoothed, trained", "ops.triton.cross_entropy", "cross_entropy_loss",
           "torch.randn(128, 500), torch.randint(0, 500, (128,))", "losses(x, y, 0.1, 0.5)[0]",
           "cross_entropy_loss(x, y, label_smoothing=0.1, logit_scale=0.5)[0]", arguments="x, y", defined=_LOSSES, train=True),
    _flash("cross entropy with squares, some left out", "ops.triton.cross_entropy", "cross_entropy_loss",
           "torch.randn(128, 500).bfloat16(), torch.where(torch.rand(128) < 0.2, -100, torch.randint(0, 500, (128,)))",
           "losses(x, y, squared=0.01)", "cross_entropy_loss(x, y, lse_square_scale=0.01)", arguments="x, y",
           defined=_LOSSES),
    _flash("linear", "ops.triton.linear", "triton_linear_act", "torch.randn(256, 128).half()",
           "F.linear(x, self.weight, self.bias)", "triton_linear_act(x, self.weight, self.bias)", state=_LINEAR),
    _flash("linear, of columns that fill no block", "ops.triton.linear", "triton_linear_act", "torch.randn(256, 128).half()",
           "F.linear(x, self.weight, self.bias)", "triton_linear_act(x, self.weight, self.bias)",
           state=_LINEAR.replace("256", "192"), fault=_NO_MASK),
    _flash("linear and squared ReLU", "ops.triton.linear", "triton_linear_act", "torch.randn(256, 128).half()",
           "F.relu(F.linear(x, self.weight, self.bias).float()).square().half()",
           'triton_linear_act(x, self.weight, self.bias, "squared_relu")', state=_LINEAR),
    _flash("linear and GELU", "ops.triton.linear", "triton_linear_act", "torch.randn(256, 128).half()",
           "F.gelu(F.linear(x, self.weight, self.bias))", 'triton_linear_act(x, self.weight, self.bias, "gelu")',
           state=_LINEAR, limit="tl.libdevice is gone from Triton since 3.0"),
    _flash("linear and GELU by tanh", "ops.triton.linear", "triton_linear_act", "torch.randn(256, 128).half()",
           'F.gelu(F.linear(x, self.weight, self.bias).float(), approximate="tanh").half()',
           'triton_linear_act(x, self.weight, self.bias, "gelu_approx")', state=_LINEAR, limit=_GLOBAL),
    _flash("gradient of linear", "ops.triton.linear", "triton_dgrad_act",
           "torch.randn(256, 192).half()", "x @ self.weight", "triton_dgrad_act(x, self.weight)",
           state="self.weight = nn.Parameter(torch.randn(192, 256).half() * 0.1)"),
    _flash("attention, trained", "flash_attn_triton", "FlashAttnFunc", _QKV, _ATTENTION,
           "FlashAttnFunc.apply(q, k, v, None, True)", arguments="q, k, v", train=True, limit=_TRANSPOSED),
    _flash("attention of the tutorial", "flash_attn_triton_og", "_attention",
           ", ".join(3 * ["torch.randn(1, 2, 256, 64).half()"]),
           "F.scaled_dot_product_attention(q, k, v, is_causal=True)", "_attention.apply(q, k, v, 0.125)",
           arguments="q, k, v", limit=_TRANSPOSED),
)  # fmt: skip
