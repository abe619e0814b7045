"""Mamba: state space models in chunks, their steps one by one, and the norms around them."""

from __future__ import annotations

from benchmarks.others.cases.case import ONE_GRADIENT, Project, calls

_EINOPS = """\
def rearrange(x, pattern, n=None):
    if pattern == "... p n -> ... (p n)":
        return x.flatten(-2)
    if pattern == "... (p n) -> ... p n":
        return x.unflatten(-1, (-1, n))
    assert pattern == "... l s -> ... s l"
    return x.transpose(-2, -1)"""

MAMBA = Project("state-spaces/mamba", ".", {"rearrange": _EINOPS})
_mamba = calls(MAMBA, "mamba", "mamba_ssm.ops.triton")

_CHUNKS = """
def chunks(x, size=64):
    short = -x.shape[1] % size
    x = F.pad(x, (0, 0) * (x.dim() - 2) + (0, short))
    return x.unflatten(1, (-1, size))


def products(a, b):
    return torch.einsum("bclgk,bcsgk->bcgls", chunks(a), chunks(b))


def alike(ids):
    short = -ids.shape[1] % 64
    given = F.pad(torch.ones_like(ids), (0, short)).unflatten(1, (-1, 64)) > 0
    ids = F.pad(ids, (0, short)).unflatten(1, (-1, 64))
    return (ids[..., :, None] == ids[..., None, :]) & given[..., None]


def states(b, x, dt, total, ids=None):
    b = chunks(b.repeat_interleave(x.shape[2] // b.shape[2], 2))
    scale = ((total[..., -1:] - total).clamp(max=0).exp() * dt).permute(0, 2, 3, 1)
    if ids is not None:
        scale = scale * (ids == ids[..., -1:])[..., None]
    return torch.einsum("bclhn,bclhp->bchpn", (b * scale[..., None]).to(x.dtype), chunks(x)).float()


def passed(states, decay, first):
    out = []
    for c in range(states.shape[1]):
        out.append(first)
        first = first * decay[:, :, c, None].exp() + states[:, c]
    return torch.stack(out, 1), first


def scanned(b, c, x, dt, total, states, d=None, z=None):
    b, c = (chunks(v.repeat_interleave(x.shape[2] // v.shape[2], 2)) for v in (b, c))
    later = torch.ones(64, 64, dtype=torch.bool, device=x.device).triu(1)
    decay = (total[..., :, None] - total[..., None, :]).clamp(max=0).masked_fill(later, -float("inf")).exp()
    weights = torch.einsum("bclhn,bcshn->bhcls", c, b) * decay * dt[..., None, :]
    out = torch.einsum("bhcls,bcshp->bclhp", weights.to(x.dtype), chunks(x))
    before = torch.einsum("bclhn,bchpn->bclhp", c, states.to(c.dtype))
    out = (out + before * total.permute(0, 2, 3, 1)[..., None].exp()).flatten(1, 2)
    out = out if d is None else out + x * d[..., None]
    return (out if z is None else out * F.silu(z)).to(x.dtype)


def selective(x, dt, a, b, c, state):
    b, c = (v.repeat_interleave(x.shape[2] // v.shape[2], 2) for v in (b, c))
    rows = []
    for t in range(x.shape[1]):
        state = state * (dt[:, t] * a).exp()[..., None, None]
        state = state + (dt[:, t, :, None] * x[:, t])[..., None] * b[:, t, :, None]
        rows.append((state * c[:, t, :, None]).sum(-1))
    return torch.stack(rows, 1).to(x.dtype), state
"""
_FALLING = """
def falling(steps):
    return -(0.1 * F.softplus(steps)).cumsum(-1)
"""
_STEP = """
def step(state, x, dt, a, b, c, d, z, bias, heads=1):
    dt = F.softplus(dt + bias)
    b, c = (v.repeat_interleave(heads, 1)[:, :, None] for v in (b, c))
    state = state * (dt[..., None] * a).exp() + (dt * x)[..., None] * b
    return ((state * c).sum(-1) + x * d) * F.silu(z), state
"""
_IN_PLACE = """
def stepped(state, *given, **named):
    state = state.clone()
    return selective_state_update(state, *given, **named), state
"""
_SLOTS = """
def step_in(state, slots, x, dt, a, b, c, d, bias):
    dt = F.softplus(dt + bias)
    old = state[slots.clamp(min=0).long()]
    new = old * (dt[..., None] * a).exp() + (dt * x)[..., None] * b[:, :, None]
    out = (new * c[:, :, None]).sum(-1) + x * d
    used = (slots >= 0)[:, None, None]
    kept = torch.arange(state.shape[0], device=x.device)[:, None] == slots
    new = torch.where(kept.any(1)[:, None, None, None], new[kept.int().argmax(1)], state)
    return torch.where(used, out, 0.0), new
"""
_NORMED = """
def normed(x, weight, group=None, bias=None, centred=False):
    x = x.unflatten(-1, (-1, group or x.shape[-1]))
    x = x - x.mean(-1, keepdim=True) if centred else x
    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    x = x.flatten(-2) * weight
    return x if bias is None else x + bias
"""
_SUMS = """
def sums(x, size=64):
    x = x.unflatten(-1, (-1, size))
    lower = torch.ones(size, size, dtype=torch.bool, device=x.device).tril(-1)
    between = torch.where(lower, x[..., None], 0.0).cumsum(-2)
    after = x.flip(-1).cumsum(-1).flip(-1) - x
    return x.cumsum(-1).clamp(max=0).flatten(-2), after.clamp(max=0).flatten(-2), between.clamp(max=0)
"""
_ANGLES = """
def angles(x, dt, first):
    turned = (torch.tanh(x) * torch.pi * dt.transpose(1, 2)[..., None]).cumsum(1) + first[:, None]
    return turned.cos(), turned.sin()
"""
_HALF = "torch.randn(2, 256, 2, 64).half(), torch.randn(2, 256, 2, 64).half()"
_TOTALS = "-torch.rand(2, 4, 4, 64).cumsum(-1) * 0.1"
_STATES = f"torch.randn(2, 256, 2, 32).bfloat16(), torch.randn(2, 256, 4, 64).bfloat16(), torch.rand(2, 4, 4, 64), {_TOTALS}"
_IDS = "torch.randint(0, 6, (2, 256)).sort(-1).values.int()"
_HEADS_STEP = (
    "torch.randn(4, 8, 64, 32), torch.randn(4, 8, 64), torch.randn(4, 8, 64), -torch.rand(8, 64, 32) - 0.1, "
    "torch.randn(4, 2, 32), torch.randn(4, 2, 32), torch.randn(8, 64), torch.randn(4, 8, 64), torch.randn(8, 64)"
)
_TIED_STEP = (
    "torch.randn(4, 8, 64, 128), torch.randn(4, 8, 64).bfloat16(), torch.randn(4, 8, 1).expand(4, 8, 64), "
    "-torch.rand(8, 1, 1).expand(8, 64, 128), torch.randn(4, 8, 128).bfloat16(), torch.randn(4, 8, 128).bfloat16(), "
    "torch.randn(8, 1).expand(8, 64), torch.randn(4, 8, 64).bfloat16(), torch.randn(8, 1).expand(8, 64)"
)
_SLOT_STEP = (
    "torch.randn(12, 4, 32, 16), torch.randperm(12)[:6].int().where(torch.arange(6) != 2, -1), torch.randn(6, 4, 32), "
    "torch.randn(6, 4, 32), -torch.rand(4, 32, 16) - 0.1, torch.randn(6, 4, 16), torch.randn(6, 4, 16), "
    "torch.randn(4, 32), torch.randn(4, 32)"
)
_MODEL = (
    "torch.randn(1, 192, 4, 32).bfloat16(), torch.rand(1, 192, 4) * 0.5, -torch.rand(4) - 0.1, "
    "torch.randn(1, 192, 2, 16).bfloat16(), torch.randn(1, 192, 2, 16).bfloat16(), torch.randn(1, 4, 32, 16)"
)
_SOFTPLUS = "its softplus, log(exp(dt) + 1) in float32, keeps no digit of a step below -16 and two of one at -10, where torch's keeps seven"
_APPROXIMATES = "inline assembly that approximates (tanh.approx.f32) is not executed on virtual"

CASES = (
    _mamba("products in chunks", "ssd_bmm", "_bmm_chunk_fwd", _HALF, "products(a, b)", "_bmm_chunk_fwd(a, b, 64)",
           arguments="a, b", defined=_CHUNKS),
    _mamba("products in chunks, of sequences that are packed", "ssd_bmm", "_bmm_chunk_fwd",
           "torch.randn(2, 200, 2, 64).bfloat16(), torch.randn(2, 200, 2, 64).bfloat16(), "
           "torch.randint(0, 3, (2, 200)).sort(-1).values.int()",
           "torch.where(alike(ids)[:, :, None], products(a, b), 0.0).float()",
           "_bmm_chunk_fwd(a, b, 64, ids, output_dtype=torch.float32)", arguments="a, b, ids", defined=_CHUNKS),
    _mamba("gradient of products in chunks", "ssd_bmm", "_bmm_chunk_bwd",
           "torch.randn(2, 256, 2, 64).half(), torch.randn(2, 4, 2, 64, 64).half(), torch.randn(2, 256, 2, 64).half()",
           'torch.einsum("bclgk,bcgls->bcsgk", chunks(a), g).flatten(1, 2) + r', "_bmm_chunk_bwd(a, g, r)",
           arguments="a, g, r", defined=_CHUNKS),
    _mamba("decays in chunks", "ssd_chunk_state", "_chunk_cumsum_fwd", "torch.randn(2, 256, 12), -torch.rand(12) - 0.1",
           "((F.softplus(chunks(dt + self.bias)) * a).cumsum(2).permute(0, 3, 1, 2), "
           "F.softplus(chunks(dt + self.bias)).permute(0, 3, 1, 2))",
           "_chunk_cumsum_fwd(dt, a, 64, self.bias, True)", arguments="dt, a",
           state="self.bias = nn.Parameter(torch.randn(12))", defined=_CHUNKS),
    _mamba("states of chunks", "ssd_chunk_state", "chunk_state", _STATES, "states(b, x, dt, total)",
           "chunk_state(b, x, dt, total)", arguments="b, x, dt, total", defined=_CHUNKS),
    _mamba("states of chunks, trained", "ssd_chunk_state", "chunk_state",
           "torch.randn(1, 128, 1, 16).bfloat16(), torch.randn(1, 128, 2, 32).bfloat16(), torch.rand(1, 2, 2, 64), "
           "torch.randn(1, 2, 2, 64)", "states(b, x, dt, falling(steps))", "chunk_state(b, x, dt, falling(steps))",
           arguments="b, x, dt, steps", defined=_CHUNKS + _FALLING, own_defined=_FALLING, train=True),
    _mamba("states of chunks, of sequences that are packed", "ssd_chunk_state", "_chunk_state_fwd", f"{_STATES}, {_IDS}",
           "states(b, x, dt, total, ids.view(2, 4, 64))", "_chunk_state_fwd(b, x, dt, total, ids)",
           arguments="b, x, dt, total, ids", defined=_CHUNKS),
    _mamba("passing of states, trained", "ssd_state_passing", "state_passing",
           "torch.randn(2, 6, 4, 512), -torch.rand(2, 4, 6), torch.randn(2, 4, 512)", "passed(s, decay, first)",
           "state_passing(s, decay, first)", arguments="s, decay, first", defined=_CHUNKS, train=True),
    _mamba("scan of chunks", "ssd_chunk_scan", "chunk_scan",
           "torch.randn(2, 256, 2, 32).bfloat16(), torch.randn(2, 256, 2, 32).bfloat16(), torch.randn(2, 256, 4, 64).bfloat16(), "
           f"torch.rand(2, 4, 4, 64), {_TOTALS}, torch.randn(2, 4, 4, 64, 32), torch.randn(4), torch.randn(2, 256, 4, 64).bfloat16()",
           "scanned(b, c, x, dt, total, s, d, z)", "chunk_scan(b, c, x, dt, total, s, d, z)",
           arguments="b, c, x, dt, total, s, d, z", defined=_CHUNKS),
    _mamba("selective scan", "ssd_combined", "_mamba_chunk_scan_combined_fwd", _MODEL, "selective(x, dt, a, b, c, first)",
           "combined(x, dt, a, b, c, first)", arguments="x, dt, a, b, c, first", defined=_CHUNKS,
           own_defined="def combined(x, dt, a, b, c, first):\n"
           "    out = _mamba_chunk_scan_combined_fwd(x, dt, a, b, c, 64, initial_states=first)\n"
           "    return out[0], out[-1]"),
    _mamba("step of heads", "selective_state_update", "selective_state_update", _HEADS_STEP,
           "step(s, x, dt, a, b, c, d, z, bias, 4)",
           "stepped(s, x, dt, a, b, c, d, z, bias, dt_softplus=True)", arguments="s, x, dt, a, b, c, d, z, bias",
           defined=_STEP, own_defined=_IN_PLACE),
    _mamba("step of tied heads", "selective_state_update", "selective_state_update", _TIED_STEP,
           "tied(s, x, dt, a, b, c, d, z, bias)", "stepped(s, x, dt, a, b, c, d, z, bias, dt_softplus=True)",
           arguments="s, x, dt, a, b, c, d, z, bias", own_defined=_IN_PLACE, fault=_SOFTPLUS,
           defined=_STEP + "\n\ndef tied(s, x, dt, a, b, c, d, z, bias):\n"
           "    out, s = step(s, x.float(), dt, a, b.float(), c.float(), d, z.float(), bias)\n"
           "    return out.to(x.dtype), s\n"),
    _mamba("step in slots of a cache", "selective_state_update", "selective_state_update", _SLOT_STEP,
           "step_in(s, slots, x, dt, a, b, c, d, bias)",
           "stepped(s, x, dt, a, b, c, d, None, bias, True, slots)", arguments="s, slots, x, dt, a, b, c, d, bias",
           defined=_SLOTS, own_defined=_IN_PLACE),
    _mamba("RMS norm before a gate, trained", "layernorm_gated", "rmsnorm_fn",
           "torch.randn(2, 64, 256), torch.randn(2, 64, 256)", "normed(x, self.weight, 64) * F.silu(z)",
           "rmsnorm_fn(x, self.weight, None, z, group_size=64)", arguments="x, z", train=True, defined=_NORMED,
           state="self.weight = nn.Parameter(torch.rand(256) + 0.5)"),
    _mamba("layer norm after a gate, trained", "layernorm_gated", "layernorm_fn",
           "torch.randn(2, 64, 200), torch.randn(2, 64, 200)", "normed(x * F.silu(z), self.weight, 100, self.bias, True)",
           "layernorm_fn(x, self.weight, self.bias, z, group_size=100, norm_before_gate=False)", arguments="x, z", train=True,
           defined=_NORMED,
           state="self.weight = nn.Parameter(torch.rand(200) + 0.5); self.bias = nn.Parameter(torch.randn(200))"),
    _mamba("two RMS norms of a sum, trained", "layer_norm", "layer_norm_fn",
           "torch.randn(64, 192), torch.randn(64, 192), torch.randn(64, 192)",
           "(normed(x + y + r, self.first), normed(x + y + r, self.second), x + y + r)",
           "layer_norm_fn(x, self.first, None, r, y, self.second, prenorm=True, is_rms_norm=True)", arguments="x, r, y",
           state="self.first = nn.Parameter(torch.rand(192) + 0.5); self.second = nn.Parameter(torch.rand(192) + 0.5)",
           defined=_NORMED, train=True, fault=ONE_GRADIENT),
    _mamba("SwiGLU of halves, trained", "k_activations", "swiglu", "torch.randn(2, 64, 600).bfloat16()",
           "F.silu(x[..., :300]) * x[..., 300:]", "swiglu(x)", train=True),
    _mamba("sums between places of chunks", "mamba3.mamba3_mimo_utils", "compute_dacs_segsum_triton",
           "-torch.rand(2, 4, 256)", "sums(x)", "compute_dacs_segsum_triton(x, 64)", defined=_SUMS),
    _mamba("gradients of grouped heads", "mamba3.grouped_head_reduction", "reduce_grouped_qk_grads_and_bias_triton",
           "torch.randn(2, 40, 2, 8, 24), torch.randn(2, 40, 2, 8, 24)",
           "(q.unflatten(3, (2, 4)).sum(4), k.unflatten(3, (2, 4)).sum(4), q.sum((0, 1)).transpose(0, 1), "
           "k.sum((0, 1)).transpose(0, 1))", "reduce_grouped_qk_grads_and_bias_triton(q, k, 2)", arguments="q, k"),
    _mamba("angles that are added up", "mamba3.angle_dt", "angle_dt_fwd",
           "torch.randn(2, 160, 4, 16), torch.rand(2, 4, 160) * 0.1, torch.rand(2, 4, 16)", "angles(x, dt, first)",
           "turned(angle_dt_fwd(x, dt, first))", arguments="x, dt, first", defined=_ANGLES,
           own_defined="def turned(x):\n    return x.cos(), x.sin()", limit=_APPROXIMATES),
)  # fmt: skip
