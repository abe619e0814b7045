"""flash-linear-attention: linear attention, recurrences and what surrounds them."""

from __future__ import annotations

from benchmarks.others.cases.case import AFFINE, ROWS, SEQUENCES, TWO, Case, Project, calls

_AUTOCAST = "import functools\nimport torch\nautocast_{0} = functools.partial(torch.amp.{0}, device_type='cuda')"
_NOT_HERE = (
    "IS_AMD", "IS_INTEL", "IS_INTEL_ALCHEMIST", "IS_NPU", "IS_NVIDIA_BLACKWELL", "IS_NVIDIA_SM100", "IS_NVIDIA_SM120",
    "IS_TMA_SUPPORTED",
)  # fmt: skip
FLA = Project(
    "fla-org/flash-linear-attention",
    ".",
    {
        "dispatch": "def dispatch(operation):\n    return lambda function: function",
        "custom_device_ctx": "import torch\ncustom_device_ctx = torch.cuda.device",
        "autocast_custom_fwd": _AUTOCAST.format("custom_fwd"),
        "autocast_custom_bwd": _AUTOCAST.format("custom_bwd"),
        "fla_cache_autotune": "import triton\nfla_cache_autotune = triton.autotune",
        "autotune_cache_kwargs": "autotune_cache_kwargs = {}",
        "get_multiprocessor_count": "def get_multiprocessor_count(index=0):\n    return 132",
        "check_shared_mem": "def check_shared_mem(arch='none', index=0):\n    return True",
        "check_pytorch_version": "def check_pytorch_version(version='2.4'):\n    return True",
        "rearrange": "def rearrange(x, pattern):\n    assert pattern == 'b t ... -> b t (...)'\n    return x.flatten(2)",
        **{name: f"{name} = False" for name in _NOT_HERE},
        # Sequences over several GPUs, which no case has.
        "FLACPContext": "class FLACPContext:\n    pass",
        "IS_NVIDIA": "IS_NVIDIA = True",
        "IS_NVIDIA_HOPPER": "IS_NVIDIA_HOPPER = True",
        "IS_TF32_SUPPORTED": "IS_TF32_SUPPORTED = True",
        "IS_GATHER_SUPPORTED": "IS_GATHER_SUPPORTED = True",
    },
)
_fla = calls(FLA, "fla", "fla")
_DESCRIBED = Project(
    FLA.repository,
    FLA.packages,
    {**FLA.given, "IS_TMA_SUPPORTED": "IS_TMA_SUPPORTED = True"},
)
_RECURRENCE = """
def recurrence(x, g):
    state, rows = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = g[:, t].exp() * state + x[:, t]
        rows.append(state)
    return torch.stack(rows, 1)
"""
_LINEAR = """
def attended(q, k, v, decay, state, beta=None, scale=None, bonus=None, ends=None):
    kind = v.dtype
    q, k, v, decay, state = (t.float() for t in (q, k, v, decay, state))
    decay = decay if decay.dim() == 4 else decay[..., None]
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    rows = []
    for t in range(q.shape[1]):
        state = state if ends is None else torch.where((ends[:-1] == t).any(), 0.0, state)
        held = state
        state = state * decay[:, t, :, :, None].exp()
        new = v[:, t]
        if beta is not None:
            new = (new - (state * k[:, t, :, :, None]).sum(-2)) * beta[:, t, :, None].float()
        new = k[:, t, :, :, None] * new[:, :, None]
        state = state + new
        seen = state if bonus is None else held + bonus[..., None] * new
        rows.append((q[:, t, :, :, None] * seen).sum(-2))
    return torch.stack(rows, 1).to(kind), state


def unit(x):
    return (x.float() * torch.rsqrt(x.float().pow(2).sum(-1, keepdim=True) + 1e-6)).to(x.dtype)


def retained(q, k, v):
    decay = torch.log(1 - 2.0 ** (-5.0 - torch.arange(q.shape[2], device=q.device)))
    zero = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    return attended(q, k, v, decay.expand(q.shape[:3]), zero)[0]


def lightning(q, k, v):
    decay = -(8 / q.shape[2] * (1 - 2 / 8)) * torch.arange(q.shape[2], device=q.device)
    zero = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    return attended(q, k, v, decay.expand(q.shape[:3]), zero)[0]
"""
_RWKV7 = """
def seventh(r, w, k, v, kk, a, state):
    rows = []
    for t in range(r.shape[1]):
        held = -(kk[:, t, :, :, None] * state).sum(-2)
        state = state * w[:, t, :, :, None].exp() + (kk * a)[:, t, :, :, None] * held[:, :, None]
        state = state + k[:, t, :, :, None] * v[:, t, :, None]
        rows.append((r[:, t, :, :, None] * state).sum(-2))
    return torch.stack(rows, 1), state
"""
_RWKV4 = """
def fourth(w, u, k, v, state):
    w = -w.exp()
    alpha, beta, eps = state[:, 0], state[:, 1], state[:, 2]
    rows = []
    for t in range(k.shape[1]):
        at, new = k[:, t : t + 1], v[:, t : t + 1]
        tau = torch.maximum(u + at, eps)
        e1, e2 = torch.exp(eps - tau), torch.exp(u + at - tau)
        rows.append((e1 * alpha + e2 * new) / (e1 * beta + e2))
        later = torch.maximum(w + eps, at)
        e1, e2 = torch.exp(w + eps - later), torch.exp(at - later)
        alpha, beta, eps = e1 * alpha + e2 * new, e1 * beta + e2, later
    return torch.cat(rows, 1), torch.stack((alpha, beta, eps), 1)
"""
_WINDOW = """
def windowed(q, k, v, sink):
    groups = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(groups, 2) for x in (k, v))
    scores = torch.einsum("bthd,bshd->bhts", q.float(), k.float()) * q.shape[-1] ** -0.5
    ago = torch.arange(q.shape[1], device=q.device)
    ago = ago[:, None] - ago
    scores = scores.masked_fill((ago < 0) | (ago >= 48), -float("inf"))
    sink = sink[None, :, None, None].expand(*scores.shape[:3], 1)
    weights = torch.cat((scores, sink), -1).softmax(-1)[..., :-1]
    return torch.einsum("bhts,bshd->bthd", weights.to(v.dtype), v)
"""
_SHORT = """
def shifted(x, weight, bias):
    x = F.pad(x.transpose(1, 2), (weight.shape[1] - 1, 0))
    return F.silu(F.conv1d(x, weight[:, None], bias, groups=weight.shape[0])).transpose(1, 2)


def before(x, ends):
    y = F.pad(x, (0, 0, 1, 0))[:, :-1]
    first = (torch.arange(x.shape[1], device=x.device)[:, None] == ends[:-1]).any(-1)
    return torch.where(first[:, None], 0.0, y) - x
"""
_INVERSE = """
def inverse(x):
    b, t, h, n = x.shape
    x = x.view(b, t // n, n, h, n).transpose(2, 3).tril(-1)
    eye = torch.eye(n, device=x.device, dtype=x.dtype)
    return torch.linalg.solve_triangular(x + eye, eye.expand_as(x), upper=False).transpose(2, 3).reshape(b, t, h, n)
"""
_POLICY = """
def policy(logits, ref, ids, gain, mask):
    logits = logits[:, :-1].float().log_softmax(-1)
    own = logits.gather(-1, ids[:, -logits.shape[1] :, None])[..., 0]
    divergence = (ref - own).exp() - (ref - own) - 1
    return (0.1 * divergence - (own - own.detach()).exp() * gain[:, None]) * mask
"""
_ENTROPY = """
def capped(x, y):
    x = 30 * torch.tanh(x / 30)
    lse = torch.logsumexp(x, -1)
    loss = lse - 0.9 * x.gather(-1, torch.where(y == -100, 0, y)[:, None])[:, 0] - 0.1 * x.mean(-1) + 0.01 * lse * lse
    return torch.where(y == -100, 0.0, loss)
"""
_MEANS = """
def means(x, ends, size=32):
    at = torch.arange(x.shape[1], device=x.device)
    part = (at[:, None] >= ends[1:-1]).sum(-1)
    parts = (ends[1:] - ends[:-1] + size - 1) // size
    chunk = (F.pad(parts, (1, 0)).cumsum(0)[:-1])[part] + (at - ends[part]) // size
    own = (torch.arange(5, device=x.device)[:, None] == chunk).to(x.dtype)
    return torch.einsum("ct,bthd->bchd", own / own.sum(-1, keepdim=True), x)
"""
_UNPACKED = """
def unpacked(x, ends):
    at = ends[1:, None] - 64 + torch.arange(64, device=x.device)
    rows = x[at.clamp(min=0, max=x.shape[0] - 1)]
    return torch.where((at >= ends[:-1, None])[..., None, None], rows, 0.0)
"""
_CAPPED = (
    "the columns that fill its block up are capped, too, from -infinity to minus the cap, and counted: where the logits lie near minus "
    "the cap the loss of 500 classes is that of 512 (log(512/500) too large for logits with a mean of -100)"
)
_UNDERFLOWS = (
    "takes the largest of a whole block of rows off all of them: what comes before a value about 100 larger in its block underflows, and "
    "is answered with that value less 46"
)
_DIFFERENCES = (
    "takes the gates' gradient as differences of running sums, which are seven times as far off as torch's steps in float32: the "
    "budget of float32 is what torch's lose (docs/how-verification-works.md)"
)
_HALVES = ", ".join(
    2 * ["torch.randn(1, 128, 2, 32).bfloat16()"] + ["torch.randn(1, 128, 2, 64).bfloat16()"]
)
_FULL = ", ".join(2 * ["torch.randn(2, 48, 2, 32)"] + ["torch.randn(2, 48, 2, 64)"])
_GATES = "F.logsigmoid(torch.randn(1, 128, 2))"
_ZERO = "q.new_zeros(1, 2, 32, 64)"
_ENDS = "torch.tensor([0, 40, 128], dtype=torch.int32)"
_HALVED = "\n\ndef halved(given):\n    return given[0], given[1].bfloat16()\n"


CASES = (
    _fla("L2 norm", "modules.l2norm", "l2norm_fwd", "torch.randn(4, 128, 128)",
         "x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)", "l2norm_fwd(x)[0]"),
    _fla("layer norm, narrow", "modules.layernorm", "layer_norm_fwd", "torch.randn(1024, 256)",
         "F.layer_norm(x, (256,), self.weight, self.bias, 1e-5)",
         "layer_norm_fwd(x, self.weight, self.bias, 1e-5)[0]",
         state="self.weight = nn.Parameter(torch.rand(256) + 0.5); self.bias = nn.Parameter(torch.randn(256))"),
    _fla("layer norm, wide", "modules.layernorm", "layer_norm_fwd", "torch.randn(512, 768)",
         "F.layer_norm(x, (768,), self.weight, self.bias, 1e-5)",
         "layer_norm_fwd(x, self.weight, self.bias, 1e-5)[0]", state=AFFINE),
    _fla("swish", "modules.activations", "swish_fwd", SEQUENCES, "F.silu(x)", "swish_fwd(x)"),
    _fla("sigmoid", "modules.activations", "sigmoid_fwd", SEQUENCES, "torch.sigmoid(x)", "sigmoid_fwd(x)"),
    _fla("SwiGLU", "modules.activations", "swiglu_fwd", TWO, "F.silu(a) * b", "swiglu_fwd(a, b)", arguments="a, b"),
    _fla("softmax", "ops.utils.softmax", "softmax_fwd", ROWS, "torch.softmax(x, -1)", "softmax_fwd(x)"),
    _fla("cumulative sum", "ops.utils.cumsum", "chunk_global_cumsum_vector", "torch.randn(2, 128, 4, 32)",
         "x.cumsum(1)", "chunk_global_cumsum_vector(x)"),
    _fla("cumulative sum in chunks", "ops.utils.cumsum", "chunk_local_cumsum_vector", "torch.randn(2, 128, 4, 32)",
         "x.view(2, 2, 64, 4, 32).cumsum(2).view(2, 128, 4, 32)", "chunk_local_cumsum_vector(x, 64)"),
    _fla("gated recurrence", "ops.hgrn.fused_recurrent", "fused_recurrent_hgrn_fwd",
         "torch.randn(2, 32, 128), F.logsigmoid(torch.randn(2, 32, 128))", "recurrence(x, g)",
         "fused_recurrent_hgrn_fwd(x, g)[0]", arguments="x, g", defined=_RECURRENCE),
    _fla("gated linear attention in chunks", "ops.gla.chunk", "chunk_gla",
         f"{_HALVES}, F.logsigmoid(torch.randn(1, 128, 2, 32)), torch.randn(1, 2, 32, 64)",
         "halved(attended(q, k, v, g, first))", "halved(chunk_gla(q, k, v, g, initial_state=first, output_final_state=True))",
         arguments="q, k, v, g, first", defined=_LINEAR + _HALVED, own_defined=_HALVED),
    _fla("gated linear attention step by step, trained", "ops.gla.fused_recurrent", "fused_recurrent_gla",
         f"{_FULL}, F.logsigmoid(torch.randn(2, 48, 2, 32)), torch.randn(2, 2, 32, 64)", "attended(q, k, v, g, first)",
         "fused_recurrent_gla(q, k, v, g, initial_state=first, output_final_state=True)", arguments="q, k, v, g, first",
         defined=_LINEAR, train=True, limit=_DIFFERENCES),
    _fla("simple gates in chunks, of packed sequences", "ops.simple_gla.chunk", "chunk_simple_gla",
         f"{_HALVES}, {_GATES}, {_ENDS}",
         f"attended(q, k, v, g, {_ZERO}, ends=ends)[0]",
         "chunk_simple_gla(q, k, v, g, cu_seqlens=ends)[0]", arguments="q, k, v, g, ends", defined=_LINEAR),
    _fla("retention in chunks, trained", "ops.retention.chunk", "chunk_retention", _HALVES, "retained(q, k, v)",
         "chunk_retention(q, k, v)[0]", arguments="q, k, v", defined=_LINEAR, train=True),
    _fla("retention in parallel", "ops.retention.parallel", "parallel_retention", _HALVES, "retained(q, k, v)",
         "parallel_retention(q, k, v)[0]", arguments="q, k, v", defined=_LINEAR),
    _fla("lightning attention in chunks", "ops.lightning_attn.chunk", "chunk_lightning_attn",
         _HALVES, "lightning(q, k, v)", "chunk_lightning_attn(q, k, v, 2, 8)[0]",
         arguments="q, k, v", defined=_LINEAR),
    _fla("delta rule in chunks", "ops.delta_rule.chunk", "chunk_delta_rule",
         f"{_HALVES}, torch.rand(1, 128, 2).bfloat16()", f"attended(q, unit(k), v, 0 * beta, {_ZERO}, beta)[0]",
         "chunk_delta_rule(q, k, v, beta)[0]", arguments="q, k, v, beta", defined=_LINEAR),
    _fla("delta rule step by step, trained", "ops.delta_rule.fused_recurrent", "fused_recurrent_delta_rule",
         f"{_FULL}, torch.rand(2, 48, 2), torch.randn(2, 2, 32, 64)", "attended(q, k * 0.1, v, 0 * beta, first, beta)",
         "fused_recurrent_delta_rule(q, k * 0.1, v, beta, initial_state=first, output_final_state=True)",
         arguments="q, k, v, beta, first", defined=_LINEAR, train=True),
    _fla("gated delta rule in chunks", "ops.gated_delta_rule.chunk", "chunk_gated_delta_rule",
         f"{_HALVES}, {_GATES}, torch.rand(1, 128, 2).bfloat16()", f"attended(unit(q), unit(k), v, g, {_ZERO}, beta)[0]",
         "chunk_gated_delta_rule(q, k, v, g, beta, use_qk_l2norm_in_kernel=True)[0]", arguments="q, k, v, g, beta",
         defined=_LINEAR),
    _fla("gated delta rule step by step", "ops.gated_delta_rule.fused_recurrent", "fused_recurrent_gated_delta_rule",
         f"{_FULL}, F.logsigmoid(torch.randn(2, 48, 2)), torch.rand(2, 48, 2), torch.randn(2, 2, 32, 64)",
         "attended(unit(q), unit(k), v, g, first, beta)",
         "fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, initial_state=first, output_final_state=True, "
         "use_qk_l2norm_in_kernel=True)", arguments="q, k, v, g, beta, first", defined=_LINEAR),
    _fla("RWKV-6 in chunks", "ops.rwkv6.chunk", "chunk_rwkv6",
         f"{_HALVES}, F.logsigmoid(torch.randn(1, 128, 2, 32) + 1).bfloat16()", f"attended(q, k, v, w, {_ZERO}, bonus=self.u)[0]",
         "chunk_rwkv6(q, k, v, w, self.u)[0]", arguments="q, k, v, w", defined=_LINEAR,
         state="self.u = nn.Parameter(torch.randn(2, 32))"),
    _fla("RWKV-6 step by step", "ops.rwkv6.fused_recurrent", "fused_recurrent_rwkv6",
         f"{_FULL}, F.logsigmoid(torch.randn(2, 48, 2, 32)), torch.randn(2, 2, 32, 64)",
         "attended(q, k, v, w, first, scale=1.0, bonus=self.u)",
         "fused_recurrent_rwkv6(q, k, v, w, self.u, 1.0, first, True)", arguments="q, k, v, w, first", defined=_LINEAR,
         state="self.u = nn.Parameter(torch.randn(2, 32))"),
    _fla("RWKV-7 step by step", "ops.rwkv7.fused_recurrent", "fused_recurrent_rwkv7_fwd",
         "torch.randn(1, 48, 2, 32), -torch.rand(1, 48, 2, 32), torch.randn(1, 48, 2, 32), torch.randn(1, 48, 2, 64), "
         "F.normalize(torch.randn(1, 48, 2, 32), dim=-1), torch.rand(1, 48, 2, 32), torch.randn(1, 2, 32, 64)",
         "seventh(r, w, k, v, kk, a, first)", "fused_recurrent_rwkv7_fwd(r, w, k, v, kk, a, 1.0, first, True)",
         arguments="r, w, k, v, kk, a, first", defined=_RWKV7),
    _fla("RWKV-4, trained", "ops.rwkv4.fused_recurrent", "fused_recurrent_rwkv4",
         "-torch.rand(64), torch.randn(64), torch.randn(2, 32, 64), torch.randn(2, 32, 64), torch.rand(2, 3, 1, 64)",
         "fourth(w, u, k, v, first)", "fused_recurrent_rwkv4(w, u, k, v, first)", arguments="w, u, k, v, first",
         defined=_RWKV4, train=True),
    _fla("attention in a window with a sink, trained", "ops.attn.parallel", "parallel_attn",
         "torch.randn(1, 128, 4, 32).half(), torch.randn(1, 128, 2, 32).half(), torch.randn(1, 128, 2, 32).half()",
         "windowed(q, k, v, self.sink)", "parallel_attn(q, k, v, window_size=48, sink_bias=self.sink)",
         arguments="q, k, v", state="self.sink = nn.Parameter(torch.randn(4))", defined=_WINDOW, train=True),
    _fla("short convolution, trained", "modules.conv.triton.ops", "CausalConv1dFunction", "torch.randn(2, 96, 80)",
         "shifted(x, self.weight, self.bias)",
         'CausalConv1dFunction.apply(x, self.weight, self.bias, None, None, False, "swish")[0]',
         state="self.weight = nn.Parameter(torch.randn(80, 4)); self.bias = nn.Parameter(torch.randn(80))", defined=_SHORT,
         train=True),
    _fla("token shift of packed sequences, trained", "modules.token_shift", "token_shift", f"torch.randn(1, 128, 96), {_ENDS}",
         "before(x, ends)", "token_shift(x, ends)", arguments="x, ends", defined=_SHORT, train=True),
    _fla("token shift of packed sequences of any length", "modules.token_shift", "token_shift",
         "torch.randn(1, 128, 96), torch.tensor([0, int(torch.randint(16, 112, ())), 128], dtype=torch.int32)",
         "before(x, ends)", "token_shift(x, ends)", arguments="x, ends", defined=_SHORT),
    _fla("cross entropy with a cap, trained", "modules.fused_cross_entropy", "cross_entropy_loss",
         "torch.randn(128, 500) * 10, torch.where(torch.rand(128) < 0.2, -100, torch.randint(0, 500, (128,)))", "capped(x, y)",
         "cross_entropy_loss(x, y, 0.1, 1.0, 0.01, 30.0)[0]", arguments="x, y", defined=_ENTROPY, train=True, fault=_CAPPED),
    _fla("linear and cross entropy, trained", "modules.fused_linear_cross_entropy", "FusedLinearCrossEntropyFunction",
         "torch.randn(128, 96), torch.randint(0, 500, (128,))", "F.cross_entropy(F.linear(x, self.weight, self.bias), y)",
         "FusedLinearCrossEntropyFunction.apply(x, y, self.weight, self.bias)", arguments="x, y", train=True,
         state="self.weight = nn.Parameter(torch.randn(500, 96) * 0.1); self.bias = nn.Parameter(torch.randn(500))"),
    _fla("linear and KL divergence", "modules.fused_kl_div", "fused_kl_div_loss",
         "torch.randn(128, 96), torch.randn(128, 96), torch.randn(500, 96) * 0.1",
         'F.kl_div((x @ self.weight.t()).log_softmax(-1), (y @ w.t()).softmax(-1), reduction="batchmean")',
         "fused_kl_div_loss(x, y, self.weight.detach(), w)", arguments="x, y, w",
         state="self.weight = nn.Parameter(torch.randn(500, 96) * 0.1)"),
    _fla("policy loss, trained", "modules.grpo", "fused_grpo_loss",
         "torch.randn(2, 33, 300), -torch.rand(2, 32) * 8, torch.randint(0, 300, (2, 48)), torch.randn(2), "
         "(torch.rand(2, 32) < 0.8).int()", "policy(x, ref.detach(), ids, gain.detach(), mask)",
         "fused_grpo_loss(x, ref, ids, gain, 0.1, mask)", arguments="x, ref, ids, gain, mask", defined=_POLICY, train=True),
    _fla("RMS norm with a gate, trained", "modules.fused_norm_gate", "rms_norm_gated",
         "torch.randn(2, 48, 192), torch.randn(2, 48, 192), torch.randn(2, 48, 192)",
         "((x + r) * torch.rsqrt((x + r).pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight * torch.sigmoid(g), x + r)",
         'rms_norm_gated(x, g, self.weight, None, "sigmoid", r, True)', arguments="x, g, r", train=True,
         state="self.weight = nn.Parameter(torch.rand(192) + 0.5)"),
    _fla("inverse of triangles", "ops.utils.solve_tril", "solve_tril", "(torch.randn(1, 128, 2, 64) * 0.1)", "inverse(x)",
         "solve_tril(x)", defined=_INVERSE),
    Case("fla inverse of triangles by descriptors", _DESCRIBED, "fla.ops.utils.solve_tril", ("solve_tril",),
         "(torch.randn(1, 128, 2, 64) * 0.1)", "inverse(x)", "solve_tril(x)", defined=_INVERSE,
         fault="hands 64-bit offsets to a descriptor, which Triton refuses: with FLA_USE_TMA=1 alone"),
    _fla("means of chunks of packed sequences", "ops.utils.pooling", "mean_pooling", f"torch.randn(1, 128, 2, 64), {_ENDS}",
         "means(x, ends)", "mean_pooling(x, 32, ends)", arguments="x, ends", defined=_MEANS),
    _fla("sequences that are unpacked", "ops.utils.pack", "unpack_sequence",
         "torch.randn(128, 2, 40), torch.tensor([0, 40, 104, 128], dtype=torch.int32)",
         "unpacked(x, ends)",
         'unpack_sequence(x, ends, "left", (3, 64, 2, 40))', arguments="x, ends", defined=_UNPACKED),
    _fla("logarithm of sums that are added up", "ops.utils.logcumsumexp", "logcumsumexp_fwd_kernel", "torch.randn(8, 160, 32)",
         "torch.logcumsumexp(x, 1)", "summed(x)", fault=_UNDERFLOWS,
         own_defined="def summed(x):\n    z = torch.empty_like(x)\n"
         "    logcumsumexp_fwd_kernel[(x.shape[0],)](x, z, x.shape[1], S=x.shape[2])\n    return z"),
    _fla("update of keys, trained", "ops.rwkv7.fused_k_update", "fused_k_rwkv7",
         "torch.randn(2, 64, 96), torch.rand(2, 64, 96)", "k + k * (a - 1) * self.ka", "fused_k_rwkv7(k, a, self.ka)",
         arguments="k, a", state="self.ka = nn.Parameter(torch.randn(96))", train=True),
)  # fmt: skip
