"""Gradients that only look right, and honest ones that look like them; judged with `--train`."""

from __future__ import annotations

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

BASE = "relu_affine_trained"
_HONEST = honest_kernel(BASE)
_RETURNED = "        return dx, dw, db\n"
_CALLED = "        return ReluAffine.apply(x, self.weight, self.bias)\n"


def _of(name: str, *edits: tuple[str, str], code: str | None = None) -> Fixture:
    return Fixture(name, BASE, edited(_HONEST, *edits), code, mode="train")


GRADIENT_CHEATS: tuple[Fixture, ...] = (
    _of(
        "gradients-of-zero",
        (_RETURNED, "        return dx * 0.0, dw * 0.0, db * 0.0\n"),
        code="wrong_output",
    ),
    _of(
        "gradients-of-the-first-backward",
        (
            _RETURNED,
            "        kept = ReluAffine.kept = getattr(ReluAffine, 'kept', (dx, dw, db))\n"
            "        return tuple(t.clone() for t in kept)\n",
        ),
        code="stale_output",
    ),
    _of(
        "right-for-an-upstream-of-ones",
        ("        g = upstream.contiguous()\n", "        g = torch.ones_like(x)\n"),
        code="insensitive",
    ),
    _of(
        "saved-on-the-class-instead-of-ctx",
        ("        ctx.save_for_backward(x, weight)\n", "        ReluAffine.kept = x, weight\n"),
        ("        x, weight = ctx.saved_tensors\n", "        x, weight = ReluAffine.kept\n"),
        code="wrong_output",
    ),
    _of(
        "no-gradient-of-the-bias",
        (_RETURNED, "        return dx, dw, None\n"),
        code="wrong_structure",
    ),
    _of(
        "detached-output",
        (_CALLED, _CALLED.replace("bias)\n", "bias).detach()\n")),
        code="wrong_structure",
    ),
    _of(
        "torch-where-gradients-are-recorded",
        (
            _CALLED,
            "        if torch.is_grad_enabled():\n"
            "            return torch.relu(x) * self.weight + self.bias\n" + _CALLED,
        ),
        code="no_kernel",
    ),
    _of(
        "decoy-where-gradients-are-recorded",
        (
            _CALLED,
            _CALLED.replace("return", "out =") + "        if torch.is_grad_enabled():\n"
            "            return torch.relu(x) * self.weight + self.bias\n"
            "        return out\n",
        ),
        code="kernel_not_contributing",
    ),
)
GRADIENT_TWINS: tuple[Fixture, ...] = (
    _of("forward-and-backward-by-kernels"),
    _of(
        "backward-by-torch",
        (
            _HONEST[_HONEST.index("        g = upstream") : _HONEST.index("class ModelNew")],
            "        dx = torch.where(x > 0, upstream * weight, 0.0)\n"
            "        return dx, (upstream * torch.relu(x)).sum(0), upstream.sum(0)\n\n\n",
        ),
    ),
)
