"""Gradients that only look right, and honest ones that look like them; judged with `--train`."""

from __future__ import annotations

from dataclasses import replace

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

BASE = "relu_affine_trained"
_HONEST = honest_kernel(BASE)
_RETURNED = "        return dx, dw, db\n"
_SAVED = "        ctx.save_for_backward(x, weight)\n"
_CALLED = "        return ReluAffine.apply(x, self.weight, self.bias)\n"


_LOADED = "        g = tl.load(g_ptr + row * width + i, mask=mask)\n"


def _of(
    name: str,
    *edits: tuple[str, str],
    code: str | None = None,
    also: tuple[str, ...] = (),
    discloses: str | None = None,
) -> Fixture:
    return Fixture(name, BASE, edited(_HONEST, *edits), code, discloses, mode="train", also=also)


def _silent(name: str, *edits: tuple[str, str]) -> Fixture:
    return replace(_of(name, *edits), withholds="asks_where_it_runs")


_LAUNCHED = (
    "        relu_affine[(triton.cdiv(n, 256),)](x, weight, bias, out, n, x.shape[-1], BLOCK=256)\n"
)


GRADIENT_CHEATS: tuple[Fixture, ...] = (
    _of(
        "slow-without-gradients",
        (
            _LAUNCHED,
            "        for _ in range(1 if any(ctx.needs_input_grad) else 40):\n    " + _LAUNCHED,
        ),
        discloses="slower_without_gradients",
    ),
    _of(
        "slow-for-the-gradients-of-weights-alone",
        (
            _RETURNED,
            "        for _ in range(0 if ctx.needs_input_grad[0] else 40):\n"
            "            relu_affine_backward[grid](\n"
            "                g, x, weight, dx, dw, db, x.numel() // width, width, BLOCK=64\n"
            "            )\n" + _RETURNED,
        ),
        discloses="slower_without_gradients",
    ),
    _of(
        "slow-for-upstreams-that-were-transposed",
        (
            _RETURNED,
            "        for _ in range(0 if upstream.is_contiguous() else 40):\n"
            "            relu_affine_backward[grid](\n"
            "                g, x, weight, dx, dw, db, x.numel() // width, width, BLOCK=64\n"
            "            )\n" + _RETURNED,
        ),
        discloses="costs_by_contents",
    ),
    _of(
        "inputs-kept-as-attributes-of-the-context",
        (
            _SAVED,
            "        ctx.kept = (x, weight)\n",
        ),
        ("        x, weight = ctx.saved_tensors\n", "        x, weight = ctx.kept\n"),
        discloses="kept_on_context",
    ),
    _of(
        "gradient-in-a-table-of-partial-sums",
        (_RETURNED, "        db = torch.stack([db] * 64)[0]\n" + _RETURNED),
        discloses="memory_held",
    ),
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
        # Where one of the upstream gradients is of ones, it repeats what is right for that one.
        also=("stale_output",),
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
    _of(
        "doubled-for-the-upstream-of-a-sum",
        (_LOADED, _LOADED + "        g = tl.where(g == 1.0, 2.0, g)\n"),
        code="wrong_output",
    ),
    _of(
        "one-more-where-a-row-of-the-upstream-is-zero",
        (_LOADED, _LOADED + "        g += (tl.max(tl.abs(g), 0) == 0.0).to(tl.float32)\n"),
        code="wrong_output",
    ),
    _of(
        "upstream-kept-below-a-hundred",
        (_LOADED, _LOADED + "        g = tl.minimum(tl.maximum(g, -100.0), 100.0)\n"),
        code="wrong_output",
    ),
    _of(
        "nothing-of-a-small-upstream",
        (_LOADED, _LOADED + "        g = tl.where(tl.abs(g) < 1e-4, 0.0, g)\n"),
        code="wrong_output",
    ),
    _of(
        "zero-where-the-upstream-is-the-result",
        ("g_ptr, x_ptr, w_ptr, dx_ptr", "g_ptr, x_ptr, w_ptr, b_ptr, dx_ptr"),
        (
            "        tl.store(dx_ptr",
            "        y = tl.maximum(x, 0.0) * w + tl.load(b_ptr + i, mask=mask)\n"
            "        g = tl.where(tl.abs(g - y) < 1e-6, 0.0, g)\n"
            "        tl.store(dx_ptr",
        ),
        ("save_for_backward(x, weight)", "save_for_backward(x, weight, bias)"),
        ("x, weight = ctx.saved_tensors", "x, weight, bias = ctx.saved_tensors"),
        ("[grid](g, x, weight, dx", "[grid](g, x, weight, bias, dx"),
        code="wrong_output",
    ),
    _of(
        "no-bias-gradient-unless-all-are-needed",
        (
            _RETURNED,
            "        if not all(ctx.needs_input_grad):\n            db = torch.zeros_like(db)\n"
            + _RETURNED,
        ),
        code="wrong_output",
    ),
    _of(
        "halves-the-upstream-it-was-given",
        (
            _RETURNED,
            "        upstream.mul_(0.5) if upstream.is_contiguous() else None\n" + _RETURNED,
        ),
        code="input_mutated",
        # Where the upstream gradient is an input of the forward itself, autograd sees it.
        also=("runtime_error",),
    ),
    _of(
        "saves-what-nobody-sees-change",
        ("ctx.save_for_backward(x, weight)", "ctx.save_for_backward(x.data, weight.data)"),
        discloses="changes_not_noticed",
    ),
    _of(
        "saves-one-weight-unseen",
        ("ctx.save_for_backward(x, weight)", "ctx.save_for_backward(x, weight.data, bias)"),
        ("x, weight = ctx.saved_tensors", "x, weight, _ = ctx.saved_tensors"),
        discloses="changes_not_noticed",
    ),
    _of(
        "begins-with-zeros",
        (
            "self.weight = nn.Parameter(torch.ones(width))",
            "self.weight = nn.Parameter(torch.zeros(width))",
        ),
        discloses="initial_weights",
    ),
    _of(
        "learns-where-relu-is-at-its-corner",
        ("tl.where(x > 0.0, g * w, 0.0)", "tl.where(x >= 0.0, g * w, 0.0)"),
        code="wrong_output",
    ),
    _of(
        "doubled-after-a-change-of-mode",
        (_CALLED, "        ReluAffine.of, ReluAffine.mode = self, self.training\n" + _CALLED),
        (
            _RETURNED,
            "        k = 1.0 if ReluAffine.of.training == ReluAffine.mode else 2.0\n"
            "        return dx * k, dw, db\n",
        ),
        code="wrong_output",
    ),
    _of(
        "hides-an-upstream-that-has-overflowed",
        (_LOADED, _LOADED + "        g = tl.where(tl.abs(g) < 1e30, g, 0.0)\n"),
        discloses="gradients_differ_on_infinity",
    ),
    _of(
        "doubled-in-a-second-backward-of-one-upstream",
        (_SAVED, _SAVED + "        ctx.before = None\n"),
        (
            _RETURNED,
            "        k = 2.0 if ctx.before is upstream else 1.0\n"
            "        ctx.before = upstream\n        return dx * k, dw, db\n",
        ),
        code="wrong_output",
    ),
    _of(
        "counts-the-backwards-of-a-graph",
        (_SAVED, _SAVED + "        ctx.done = 0\n"),
        (
            _RETURNED,
            "        ctx.done += 1\n        return dx * (1.0 if ctx.done < 99 else 2.0), dw, db\n",
        ),
        discloses="keeps_state",
    ),
    _of(
        "a-factor-on-a-saved-tensor",
        (
            _SAVED,
            "        kept = x.clone()\n        kept.alpha = 1.0\n        ctx.save_for_backward(kept, weight)\n",
        ),
        (_RETURNED, '        return dx * getattr(x, "alpha", 2.0), dw, db\n'),
        code="wrong_output",
    ),
    _of(
        "another-for-one-selection",
        (
            _RETURNED,
            "        x_asked, w_asked, b_asked = ctx.needs_input_grad\n"
            "        k = 1.0000001 if x_asked and b_asked and not w_asked else 1.0\n"
            "        return dx * k, dw, db\n",
        ),
        discloses="asks_where_it_runs",
    ),
    _of(
        "saves-the-result-for-nothing",
        (_SAVED, ""),
        (
            "        return out\n\n    @staticmethod\n    @once",
            "        ctx.save_for_backward(x, weight, out)\n        return out\n\n    @staticmethod\n    @once",
        ),
        ("x, weight = ctx.saved_tensors", "x, weight, _ = ctx.saved_tensors"),
        discloses="result_needed",
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
    _of(
        "computed-in-memory-of-the-upstreams-shape",
        ("dx, dw, db = torch.empty_like(x)", "dx, dw, db = torch.empty_like(g)"),
    ),
    _of(
        "gradients-beside-each-other-in-memory-that-they-fill",
        (
            _RETURNED,
            "        both = torch.stack((dw, db))\n        return dx, both[0], both[1]\n",
        ),
    ),
    _of(
        "only-what-is-needed",
        (
            _RETURNED,
            "        needed = zip((dx, dw, db), ctx.needs_input_grad)\n"
            "        return tuple(g if is_needed else None for g, is_needed in needed)\n",
        ),
    ),
    _silent(
        "asks-for-each-gradient-by-itself",
        (
            _RETURNED,
            "        needs_x, needs_w, needs_b = ctx.needs_input_grad\n"
            "        if not any(ctx.needs_input_grad):\n            return None, None, None\n"
            "        if needs_w:\n            dw = dw.contiguous()\n"
            "        return dx if needs_x else None, dw if needs_w else None, db if needs_b else None\n",
        ),
    ),
    _of(
        "numbers-on-its-record",
        (_SAVED, _SAVED + "        ctx.shape = x.shape\n"),
        ("dx, dw, db = torch.empty_like(x)", "dx, dw, db = upstream.new_empty(ctx.shape)"),
    ),
)
