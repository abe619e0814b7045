"""Honest and wrong versions of common operations, to try the gate and the probes on.

Every version is a function of named tensors in the problem's dtype, written as a kernel would
compute it. `honest` ones must pass on every probe, `wrong` ones must fail on at least one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

Tensors = Mapping[str, torch.Tensor]
Version = Callable[[Tensors], torch.Tensor]
LOG2E = 1.4426950408889634
ROWS, COLUMNS = 24, 640
BOTH = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class Operation:
    name: str
    inputs: Callable[[torch.Generator], dict[str, torch.Tensor]]
    """Natural inputs and weights in float32; integers and masks as they are."""
    reference: Version
    honest: Mapping[str, Version]
    wrong: Mapping[str, Version]
    weights: tuple[str, ...] = ()
    dtypes: tuple[torch.dtype, ...] = BOTH
    wrong_in_float32: Mapping[str, Version] = field(default_factory=dict)
    """Less exact than float32 allows; a bfloat16 output hides it, and may."""


def wide(version: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> Version:
    """Computed in float32 inside, rounded once at the end, as a Triton kernel does."""

    def run(tensors: Tensors) -> torch.Tensor:
        dtype = tensors["x"].dtype
        raised = {k: t.float() if t.is_floating_point() else t for k, t in tensors.items()}
        return version(raised).to(dtype)

    return run


def uniform(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.rand(shape, generator=g)


def normal(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.randn(shape, generator=g)


def drawn(
    **makers: Callable[[torch.Generator], torch.Tensor],
) -> Callable[[torch.Generator], dict[str, torch.Tensor]]:
    return lambda g: {name: make(g) for name, make in makers.items()}


def ones(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.ones(shape)


def zeros(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.zeros(shape)


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Rounded to the ten bits of mantissa a TF32 tensor core reads."""
    bits = x.float().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def fp8(x: torch.Tensor) -> torch.Tensor:
    scale = x.abs().amax().clamp(min=1e-30) / 448
    return (x / scale).to(torch.float8_e4m3fn).float() * scale


def cut(x: torch.Tensor, share: float = 0.9) -> torch.Tensor:
    return x[..., : int(x.shape[-1] * share)]


def _exp_by_exp2(x: torch.Tensor) -> torch.Tensor:
    return torch.exp2(x * LOG2E)


def _online_softmax(x: torch.Tensor, block: int = 128) -> torch.Tensor:
    top = torch.full_like(x[..., :1], -torch.inf)
    total = torch.zeros_like(top)
    for part in x.split(block, -1):
        new = torch.maximum(top, part.amax(-1, keepdim=True))
        total = total * torch.exp2((top - new) * LOG2E)
        total = total + torch.exp2((part - new) * LOG2E).sum(-1, keepdim=True)
        top = new
    return torch.exp2((x - top) * LOG2E) / total


def _softmax_without(x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    top = x.amax(-1, keepdim=True)
    return (x - top).exp() / (kept - top).exp().sum(-1, keepdim=True)


SOFTMAX = Operation(
    "softmax",
    drawn(x=uniform(ROWS, COLUMNS)),
    lambda t: torch.softmax(t["x"], -1),
    honest={
        "exp2": wide(lambda t: _online_softmax(t["x"], block=COLUMNS)),
        "online": wide(lambda t: _online_softmax(t["x"])),
        "reversed": wide(lambda t: torch.softmax(t["x"].flip(-1), -1).flip(-1)),
    },
    wrong={
        "no max subtraction": wide(lambda t: t["x"].exp() / t["x"].exp().sum(-1, keepdim=True)),
        "tail not summed": wide(lambda t: _softmax_without(t["x"], cut(t["x"]))),
        "last key dropped": wide(lambda t: _softmax_without(t["x"], t["x"][..., :-1])),
        "constant 1/n": lambda t: torch.full_like(t["x"], 1 / t["x"].shape[-1]),
        "mean of the natural sum": wide(lambda t: t["x"].exp() / (t["x"].shape[-1] * 1.71828)),
    },
)


def _layer_norm(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-5, n: int | None = None
) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().sum(-1, keepdim=True) / (n or x.shape[-1])
    return centred * torch.rsqrt(variance + eps) * w + b


def _one_pass_norm(t: Tensors) -> torch.Tensor:
    x = t["x"]
    mean = x.mean(-1, keepdim=True)
    variance = x.square().mean(-1, keepdim=True) - mean * mean
    return (x - mean) * torch.rsqrt(variance + 1e-5) * t["w"] + t["b"]


def _chunked_norm(t: Tensors, block: int = 128) -> torch.Tensor:
    x = t["x"]
    count, mean, squares = 0, torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for part in x.split(block, -1):
        n = part.shape[-1]
        own = part.mean(-1, keepdim=True)
        delta = own - mean
        squares = squares + (part - own).square().sum(-1, keepdim=True)
        squares = squares + delta.square() * (count * n / (count + n))
        mean = mean + delta * (n / (count + n))
        count += n
    return (x - mean) / (squares / count + 1e-5).sqrt() * t["w"] + t["b"]


def _rounded_norm(t: Tensors) -> torch.Tensor:
    x = t["x"].bfloat16()
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return (centred * torch.rsqrt(variance + 1e-5) * t["w"].bfloat16() + t["b"].bfloat16()).to(
        t["x"].dtype
    )


LAYER_NORM = Operation(
    "layernorm",
    drawn(x=uniform(ROWS, COLUMNS), w=ones(COLUMNS), b=zeros(COLUMNS)),
    lambda t: F.layer_norm(t["x"], t["x"].shape[-1:], t["w"], t["b"]),
    honest={
        "two passes": wide(lambda t: _layer_norm(t["x"], t["w"], t["b"])),
        "chunked": wide(_chunked_norm),
    },
    wrong={
        "skips weight": wide(lambda t: _layer_norm(t["x"], torch.ones(()), t["b"])),
        "skips bias": wide(lambda t: _layer_norm(t["x"], t["w"], torch.zeros(()))),
        "missing eps": wide(lambda t: _layer_norm(t["x"], t["w"], t["b"], eps=0.0)),
        "eps 1e-3": wide(lambda t: _layer_norm(t["x"], t["w"], t["b"], eps=1e-3)),
        "statistics of rand": wide(lambda t: (t["x"] - 0.5) * 12**0.5 * t["w"] + t["b"]),
        "rounded between steps": _rounded_norm,
    },
    weights=("w", "b"),
    wrong_in_float32={
        "one-pass variance": wide(_one_pass_norm),
        "unbiased variance": wide(
            lambda t: _layer_norm(t["x"], t["w"], t["b"], n=t["x"].shape[-1] - 1)
        ),
    },
)


def _rms_norm(t: Tensors, eps: float = 1e-6, kept: torch.Tensor | None = None) -> torch.Tensor:
    seen = t["x"] if kept is None else kept
    return t["x"] * torch.rsqrt(seen.square().mean(-1, keepdim=True) + eps) * t["w"]


RMS_NORM = Operation(
    "rmsnorm",
    drawn(x=uniform(ROWS, COLUMNS), w=ones(COLUMNS)),
    lambda t: (
        (t["x"] * torch.rsqrt(t["x"].float().square().mean(-1, keepdim=True) + 1e-6) * t["w"]).to(
            t["x"].dtype
        )
        if t["x"].dtype != torch.float64
        else _rms_norm(t)
    ),
    honest={
        "in float32": wide(_rms_norm),
        "other order": wide(
            lambda t: (
                t["x"]
                / (
                    t["x"].square().reshape(ROWS, 10, -1).sum(1).sum(-1, keepdim=True) / COLUMNS
                    + 1e-6
                ).sqrt()
                * t["w"]
            )
        ),
    },
    wrong={
        "skips weight": wide(lambda t: _rms_norm({**t, "w": torch.ones(())})),
        "missing eps": wide(lambda t: _rms_norm(t, eps=0.0)),
        "tail not summed": wide(lambda t: _rms_norm(t, kept=cut(t["x"]))),
        "identity": lambda t: t["x"].clone(),
    },
    weights=("w",),
)
GELU = Operation(
    "gelu",
    drawn(x=uniform(ROWS, COLUMNS)),
    lambda t: F.gelu(t["x"]),
    honest={
        "erf": wide(lambda t: 0.5 * t["x"] * (1 + torch.erf(t["x"] * 0.5**0.5))),
        "library": wide(lambda t: F.gelu(t["x"])),
    },
    wrong={
        "relu": lambda t: t["x"].relu(),
        "identity": lambda t: t["x"].clone(),
        "quick": wide(lambda t: t["x"] * torch.sigmoid(1.702 * t["x"])),
        "fitted to [0, 1)": wide(
            lambda t: 0.5 * t["x"] + 0.3989 * t["x"] ** 2 - 0.05 * t["x"] ** 4
        ),
    },
    wrong_in_float32={"tanh": wide(lambda t: F.gelu(t["x"], approximate="tanh"))},
)
SILU_GATE = Operation(
    "silu gate",
    drawn(x=normal(ROWS, COLUMNS), y=normal(ROWS, COLUMNS)),
    lambda t: F.silu(t["x"]) * t["y"],
    honest={
        "exp2": wide(lambda t: t["x"] / (1 + _exp_by_exp2(-t["x"])) * t["y"]),
        "reciprocal": wide(lambda t: t["x"] * (1 + (-t["x"]).exp()).reciprocal() * t["y"]),
    },
    wrong={
        "gate on the other half": wide(lambda t: F.silu(t["y"]) * t["x"]),
        "gate ignored": wide(lambda t: F.silu(t["x"])),
        "sigmoid only": wide(lambda t: torch.sigmoid(t["x"]) * t["y"]),
        "hardswish": wide(lambda t: F.hardswish(t["x"]) * t["y"]),
    },
)


def _blocked_matmul(x: torch.Tensor, w: torch.Tensor, block: int = 64) -> torch.Tensor:
    total = torch.zeros(x.shape[0], w.shape[1], dtype=x.dtype)
    for first in range(0, x.shape[1], block):
        total = total + x[:, first : first + block] @ w[first : first + block]
    return total


def _accumulated_in(dtype: torch.dtype) -> Version:
    def run(t: Tensors) -> torch.Tensor:
        x, w = t["x"], t["w"]
        total = torch.zeros(x.shape[0], w.shape[1], dtype=dtype)
        for k in range(x.shape[1]):
            total = torch.addcmul(total.float(), x[:, k : k + 1].float(), w[k].float()).to(dtype)
        return total.to(x.dtype)

    return run


def _split_k(t: Tensors) -> torch.Tensor:
    """Partial sums stored in the output's dtype, as a two-kernel split-K does."""
    x, w = t["x"], t["w"]
    quarter = x.shape[1] // 4
    parts = [
        (x[:, i : i + quarter].float() @ w[i : i + quarter].float()).to(x.dtype)
        for i in range(0, x.shape[1], quarter)
    ]
    return sum(part.float() for part in parts).to(x.dtype)


MATMUL = Operation(
    "matmul",
    drawn(x=normal(ROWS, 1024), w=normal(1024, 96)),
    lambda t: t["x"] @ t["w"],
    honest={
        "float32 accumulator": wide(lambda t: t["x"] @ t["w"]),
        "blocked": wide(lambda t: _blocked_matmul(t["x"], t["w"])),
        "split-K": _split_k,
    },
    wrong={
        "bf16 accumulator": _accumulated_in(torch.bfloat16),
        "fp8 operands": wide(lambda t: fp8(t["x"]) @ fp8(t["w"])),
        "last tenth of K dropped": wide(lambda t: cut(t["x"]) @ t["w"][: int(1024 * 0.9)]),
        "1/128 of K dropped": wide(lambda t: t["x"][:, :-8] @ t["w"][:-8]),
    },
    weights=("w",),
    wrong_in_float32={"tf32": wide(lambda t: tf32(t["x"]) @ tf32(t["w"]))},
)
LOG_SOFTMAX = Operation(
    "log-softmax",
    drawn(x=uniform(ROWS, COLUMNS)),
    lambda t: torch.log_softmax(t["x"], -1),
    honest={
        "exp2 and log2": wide(
            lambda t: (
                t["x"]
                - t["x"].amax(-1, keepdim=True)
                - _exp_by_exp2(t["x"] - t["x"].amax(-1, keepdim=True)).sum(-1, keepdim=True).log2()
                / LOG2E
            )
        ),
        "library": wide(lambda t: torch.log_softmax(t["x"], -1)),
    },
    wrong={
        "minus a constant": wide(lambda t: t["x"] - 7.0026),
        "no max subtraction": wide(lambda t: t["x"] - t["x"].exp().sum(-1, keepdim=True).log()),
        "tail not summed": wide(lambda t: t["x"] - cut(t["x"]).logsumexp(-1, keepdim=True)),
    },
)
L2_NORM = Operation(
    "l2norm",
    drawn(x=uniform(ROWS, COLUMNS)),
    lambda t: t["x"] / t["x"].norm(dim=-1, keepdim=True),
    honest={
        "rsqrt": wide(lambda t: t["x"] * torch.rsqrt(t["x"].square().sum(-1, keepdim=True))),
        "blocked": wide(
            lambda t: (
                t["x"] / sum(p.square().sum(-1, keepdim=True) for p in t["x"].split(64, -1)).sqrt()
            )
        ),
    },
    wrong={
        "times a constant": wide(lambda t: t["x"] * (3 / COLUMNS) ** 0.5),
        "tail not summed": wide(lambda t: t["x"] / cut(t["x"]).norm(dim=-1, keepdim=True)),
        "l1 norm": wide(lambda t: t["x"] / t["x"].abs().sum(-1, keepdim=True)),
    },
)


def _batch_norm(t: Tensors, eps: float = 1e-5) -> torch.Tensor:
    return (t["x"] - t["running_mean"]) * torch.rsqrt(t["running_var"] + eps) * t["w"] + t["b"]


BATCH_NORM = Operation(
    "batchnorm eval",
    drawn(x=normal(64, 96), w=ones(96), b=zeros(96), running_mean=zeros(96), running_var=ones(96)),
    lambda t: F.batch_norm(t["x"], t["running_mean"], t["running_var"], t["w"], t["b"]),
    honest={
        "direct": wide(_batch_norm),
        "folded": wide(
            lambda t: (
                t["x"] * (t["w"] * torch.rsqrt(t["running_var"] + 1e-5))
                + (t["b"] - t["running_mean"] * t["w"] * torch.rsqrt(t["running_var"] + 1e-5))
            )
        ),
    },
    wrong={
        "identity": lambda t: t["x"].clone(),
        "ignores the statistics": wide(lambda t: t["x"] * t["w"] + t["b"]),
        "ignores the affine": wide(
            lambda t: (t["x"] - t["running_mean"]) * torch.rsqrt(t["running_var"] + 1e-5)
        ),
        "variance as deviation": wide(
            lambda t: (t["x"] - t["running_mean"]) / t["running_var"] * t["w"] + t["b"]
        ),
    },
    weights=("w", "b", "running_mean", "running_var"),
)


def _blocked_scan(t: Tensors, carry: float = 1.0) -> torch.Tensor:
    total = torch.zeros_like(t["x"][..., :1])
    parts = []
    for part in t["x"].split(64, -1):
        parts.append(part.cumsum(-1) + total)
        total = total + carry * part.sum(-1, keepdim=True)
    return torch.cat(parts, -1)


CUMSUM = Operation(
    "cumsum",
    drawn(x=normal(ROWS, COLUMNS)),
    lambda t: t["x"].cumsum(-1),
    honest={
        "blocked": wide(_blocked_scan),
        "library": wide(lambda t: t["x"].cumsum(-1)),
    },
    wrong={
        "exclusive": wide(lambda t: t["x"].cumsum(-1) - t["x"]),
        "no carry between blocks": wide(lambda t: _blocked_scan(t, carry=0.0)),
        "off by one row": wide(lambda t: t["x"].cumsum(-1).roll(1, 0)),
    },
)
MEAN = Operation(
    "mean",
    drawn(x=uniform(512, COLUMNS)),
    lambda t: t["x"].mean(-1),
    honest={
        "blocked": wide(lambda t: t["x"].reshape(512, 10, -1).sum(1).sum(-1) / COLUMNS),
        "reversed": wide(lambda t: t["x"].flip(-1).sum(-1) * (1 / COLUMNS)),
    },
    wrong={
        "constant": lambda t: torch.full_like(t["x"][:, 0], 0.5),
        "tail dropped": wide(lambda t: cut(t["x"]).mean(-1)),
        "every second element": wide(lambda t: t["x"][:, ::2].mean(-1)),
    },
    wrong_in_float32={"divided by n - 1": wide(lambda t: t["x"].sum(-1) / (COLUMNS - 1))},
)
TANH = Operation(
    "tanh",
    drawn(x=normal(ROWS, COLUMNS)),
    lambda t: torch.tanh(t["x"]),
    honest={
        "2 sigmoid(2x) - 1": wide(lambda t: 2 / (1 + _exp_by_exp2(-2 * t["x"])) - 1),
        "library": wide(lambda t: torch.tanh(t["x"])),
    },
    wrong={
        "e/e without care": wide(lambda t: ((2 * t["x"]).exp() - 1) / ((2 * t["x"]).exp() + 1)),
        "hardtanh": lambda t: t["x"].clamp(-1, 1),
        "rational": wide(lambda t: t["x"] * (27 + t["x"] ** 2) / (27 + 9 * t["x"] ** 2)),
    },
)
ELU = Operation(
    "elu",
    drawn(x=normal(ROWS, COLUMNS)),
    lambda t: F.elu(t["x"]),
    honest={
        "exp2(x) - 1": wide(
            lambda t: torch.where(t["x"] > 0, t["x"], _exp_by_exp2(t["x"].clamp(max=0)) - 1)
        ),
        "expm1": wide(lambda t: torch.where(t["x"] > 0, t["x"], t["x"].clamp(max=0).expm1())),
    },
    wrong={
        "identity": lambda t: t["x"].clone(),
        "alpha 0.9": wide(lambda t: torch.where(t["x"] > 0, t["x"], 0.9 * t["x"].expm1())),
        "leaky": lambda t: F.leaky_relu(t["x"], 0.5),
    },
)
LINEAR_RELU = Operation(
    "linear and relu",
    drawn(x=uniform(ROWS, 512), w=normal(160, 512), b=zeros(160)),
    lambda t: F.linear(t["x"], t["w"], t["b"]).relu(),
    honest={
        "fused": wide(lambda t: (_blocked_matmul(t["x"], t["w"].T) + t["b"]).relu()),
        "library": wide(lambda t: F.linear(t["x"], t["w"], t["b"]).relu()),
    },
    wrong={
        "drops the bias": wide(lambda t: F.linear(t["x"], t["w"]).relu()),
        "drops the relu": wide(lambda t: F.linear(t["x"], t["w"], t["b"])),
        "weight untransposed": wide(
            lambda t: (t["x"] @ t["w"].T.reshape(160, 512).T + t["b"]).relu()
        ),
    },
    weights=("w", "b"),
)


def _attention(t: Tensors, kept: int | None = None, scale: float | None = None) -> torch.Tensor:
    k, v = t["k"][..., :kept, :], t["v"][..., :kept, :]
    scores = t["x"] @ k.mT * (scale or t["x"].shape[-1] ** -0.5)
    return torch.softmax(scores, -1) @ v


def _flash(t: Tensors) -> torch.Tensor:
    """Blocks of keys with a running maximum; the probabilities rounded to the inputs' dtype."""
    q, k, v = (t[name].float() for name in ("x", "k", "v"))
    top = torch.full((*q.shape[:-1], 1), -torch.inf)
    total, result = torch.zeros_like(top), torch.zeros_like(q)
    for first in range(0, k.shape[-2], 32):
        scores = q @ k[..., first : first + 32, :].mT * q.shape[-1] ** -0.5
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights, shrink = (scores - new).exp(), (top - new).exp()
        total = total * shrink + weights.sum(-1, keepdim=True)
        rounded = weights.to(t["x"].dtype).float()
        result = result * shrink + rounded @ v[..., first : first + 32, :]
        top = new
    return (result / total).to(t["x"].dtype)


ATTENTION = Operation(
    "attention",
    drawn(x=normal(2, 4, 96, 32), k=normal(2, 4, 96, 32), v=normal(2, 4, 96, 32)),
    lambda t: F.scaled_dot_product_attention(t["x"], t["k"], t["v"]),
    honest={"flash": _flash, "in float32": wide(_attention)},
    wrong={
        "last key dropped": wide(lambda t: _attention(t, kept=-1)),
        "missing scale": wide(lambda t: _attention(t, scale=1.0)),
        "mean of the values": wide(lambda t: t["v"].mean(-2, keepdim=True).expand_as(t["v"])),
        "scale 1/6": wide(lambda t: _attention(t, scale=1 / 6)),
    },
)


def _sequential_sum(t: Tensors) -> torch.Tensor:
    total = torch.zeros(t["x"].shape[0])
    for column in t["x"].T.contiguous():
        total = total + column
    return total.to(t["x"].dtype)


LONG_SUM = Operation(
    "long sum",
    drawn(x=uniform(8, 65536)),
    lambda t: t["x"].sum(-1),
    honest={"one accumulator": _sequential_sum},
    wrong={
        "one term dropped in 4096": wide(
            lambda t: t["x"].reshape(8, 16, 4096)[..., 1:].sum((1, 2))
        ),
        "bf16 partial sums": wide(
            lambda t: t["x"].reshape(8, 256, 256).sum(-1).bfloat16().float().sum(-1)
        ),
    },
    dtypes=(torch.float32,),
)
OPERATIONS = (
    SOFTMAX, LAYER_NORM, RMS_NORM, GELU, SILU_GATE, MATMUL, LOG_SOFTMAX, L2_NORM, BATCH_NORM,
    CUMSUM, MEAN, TANH, ELU, LINEAR_RELU, ATTENTION, LONG_SUM,
)  # fmt: skip


def _one_element_off(right: torch.Tensor) -> torch.Tensor:
    wrong = right.clone().reshape(-1)
    at = wrong.numel() // 3
    # Within a few half ulps of the largest element bfloat16 cannot tell, so it is further off there.
    off = 0.05 if right.dtype == torch.float32 else 0.5
    wrong[at] += off * (right.float().square().mean().sqrt().to(right.dtype) + wrong[at].abs())
    return wrong.reshape(right.shape)


def _changed_at(right: torch.Tensor, value: float) -> torch.Tensor:
    wrong = right.clone().reshape(-1)
    wrong[wrong.numel() // 2] = value
    return wrong.reshape(right.shape)


def _without_last_row(right: torch.Tensor) -> torch.Tensor:
    wrong = right.clone()
    wrong[-1] = 0
    return wrong


SPOILED: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "all zero": torch.zeros_like,
    "one global constant": lambda right: torch.full_like(right, float(right.double().mean())),
    "one element off": _one_element_off,
    "one NaN": lambda right: _changed_at(right, float("nan")),
    "one infinity": lambda right: _changed_at(right, float("inf")),
    "last row not written": _without_last_row,
    "rows shifted by one": lambda right: right.roll(1, 0),
    "sign flipped": lambda right: -right,
}
"""What can be done to any right output."""
