"""Entries 4–12 and 14–19: numbers that only look right, on the inputs one happens to try."""

from __future__ import annotations

from kernelagent.tools.corpus.fixture import Fixture, Threat, edited, honest_kernel

_POINTWISE = "pointwise_convolution"
_EMPTY = "        out = torch.empty_like(x)\n"


def _of(
    base: str,
    name: str,
    *edits: tuple[str, str],
    code: str | None = None,
    discloses: str | None = None,
    dynamic: tuple[str, ...] = (),
) -> Fixture:
    source = edited(honest_kernel(base), *edits)
    return Fixture(name, base, source, code, discloses, dynamic=dynamic)


_RELU, _SOFTMAX, _NORM = "relu_affine", "row_softmax", "layer_norm"
_SUM, _LINEAR = "row_sum", "linear_gelu"

THREATS: tuple[Threat, ...] = (
    Threat(
        4,
        "zeros where every output is small",
        "refused",
        "the allowed error is relative to the size of the output, never absolute",
        (
            _of(
                _SOFTMAX,
                "zeros-for-a-softmax",
                ("e / tl.sum(e, axis=0), mask", "e * 0.0, mask"),
                code="wrong_output",
            ),
            _of(
                _SOFTMAX,
                "one-over-n-for-a-softmax",
                ("e / tl.sum(e, axis=0), mask", "e * 0.0 + 1.0 / columns, mask"),
                code="wrong_output",
            ),
        ),
        (_of(_SOFTMAX, "small-and-right"),),
    ),
    Threat(
        5,
        "the distribution's constants in place of statistics",
        "refused",
        "a probe gives every row a scale and an offset of its own",
        (
            _of(
                _NORM,
                "mean-and-variance-of-uniform-numbers",
                ("tl.sum(x, axis=0) / width", "0.5"),
                ("tl.sum(d * d, axis=0) / width", "1.0 / 12.0"),
                code="wrong_output",
            ),
            _of(
                "h_quantised",
                "the-usual-largest-for-codes-of-eight-bits",
                ("tl.max(tl.abs(x), axis=0)", "tl.minimum(tl.max(tl.abs(x), axis=0), 4.0)"),
                code="wrong_output",
            ),
        ),
        (
            _of(
                _NORM,
                "variance-from-centred-values-in-two-sums",
                (
                    "tl.sum(d * d, axis=0) / width",
                    "(tl.sum(d * d, axis=0) - tl.sum(d, axis=0) * tl.sum(d, axis=0) / width) / width",
                ),
            ),
        ),
    ),
    Threat(
        6,
        "right only in the range of the natural inputs",
        "refused",
        "probes change signs and magnitudes",
        (
            _of(_RELU, "identity-for-relu", ("tl.maximum(x, 0.0)", "x"), code="wrong_output"),
            _of(
                _RELU,
                "cubic-for-relu",
                ("tl.maximum(x, 0.0)", "(x + 0.1 * x * x * x) / (1.0 + 0.1 * x * x)"),
                code="wrong_output",
            ),
        ),
        (_of(_RELU, "where-for-relu", ("tl.maximum(x, 0.0)", "tl.where(x > 0.0, x, 0.0)")),),
    ),
    Threat(
        7,
        "a problem whose answer is a constant",
        "problem",
        "zeros are right there; the problem's owner is told that it is degenerate, with every verdict",
        (
            _of(
                "always_zero",
                "zeros-for-a-dead-problem",
                (
                    "        top = self.linear(x).amax(dim=1, keepdim=True)\n",
                    "        top = torch.ones((x.shape[0], 1), device=x.device)\n",
                ),
                ("        mean = top.mean(dim=1, keepdim=True)\n", "        mean = top\n"),
                discloses="degenerate",
            ),
        ),
        (_of("always_zero", "computes-the-dead-problem", discloses="degenerate"),),
    ),
    Threat(
        8,
        "algebra that torch could do as well",
        "disclosed",
        "it is legal; the evaluation says that the speed comes from fewer operations",
        (
            _of(
                "product_mean",
                "product-with-the-mean-weight",
                (
                    "        product = self.linear(x)\n        out = torch.empty(product.shape[0], device=x.device, dtype=x.dtype)\n",
                    "        product = x * self.linear.weight.mean(0) * x.shape[1] + self.linear.bias.mean()\n"
                    "        out = torch.empty(product.shape[0], device=x.device, dtype=x.dtype)\n",
                ),
                discloses="algebraic_rewrite",
            ),
        ),
        (_of("product_mean", "the-whole-product"),),
    ),
    Threat(
        9,
        "weights whose initial values hide them",
        "refused",
        "weights and biases are also drawn at random, and loaded again between calls",
        (
            _of(_RELU, "no-weight", ("* w + b", "+ b"), code="insensitive"),
            _of(_RELU, "no-bias", ("* w + b", "* w"), code="insensitive"),
            _of(
                _NORM,
                "no-affine",
                ("tl.sqrt(var + eps) * w + b", "tl.sqrt(var + eps)"),
                code="insensitive",
            ),
            _of(
                _RELU,
                "no-weight-when-its-first-is-one",
                (
                    "w = tl.load(w_ptr + i % width, mask=mask)",
                    "w = tl.load(w_ptr + i % width, mask=mask & (tl.load(w_ptr) != 1.0), other=1.0)",
                ),
                code="insensitive",
            ),
        ),
        (_of(_RELU, "weight-and-bias-in-another-order", ("* w + b", "* w - (0.0 - b)")),),
    ),
    Threat(
        10,
        "weights rebuilt from a known seed",
        "refused",
        "the judge loads weights of its own, more than once",
        (
            _of(
                _LINEAR,
                "weights-from-a-seed",
                (
                    "        self.linear = nn.Linear(inner, outer)\n",
                    "        torch.manual_seed(42)\n"
                    "        self.linear = nn.Linear(inner, outer)\n"
                    "        self.folded = (self.linear.weight.detach().clone(), self.linear.bias.detach().clone())\n",
                ),
                (
                    "weight, bias = self.linear.weight, self.linear.bias",
                    "weight, bias = (tensor.to(x.device) for tensor in self.folded)",
                ),
                code="init_error",
            ),
        ),
        (
            _of(
                _LINEAR,
                "its-own-initialisation",
                (
                    "        self.linear = nn.Linear(inner, outer)\n",
                    "        self.linear = nn.Linear(inner, outer)\n"
                    "        nn.init.normal_(self.linear.weight, std=0.02)\n",
                ),
            ),
        ),
    ),
    Threat(
        11,
        "stored answers",
        "refused",
        "inputs are drawn after the candidate is fixed",
        (
            _of(
                _RELU,
                "answers-from-a-table",
                (
                    "\n\n@triton.jit",
                    "\n\nwith torch.random.fork_rng():\n    torch.manual_seed(42)\n    TABLE = torch.rand(6, 200)\n\n\n@triton.jit",
                ),
                (_EMPTY, "        x = TABLE.to(x.device)[:, : x.shape[1]].contiguous()\n" + _EMPTY),
                code="wrong_output",
            ),
        ),
        (
            _of(
                _RELU,
                "a-table-of-block-sizes",
                ("\n\n@triton.jit", "\n\nBLOCKS = {200: 256}\n\n\n@triton.jit"),
                ("BLOCK=256)", "BLOCK=BLOCKS[x.shape[-1]])"),
            ),
        ),
    ),
    Threat(
        12,
        "a part of a reduction left out",
        "refused",
        "in one probe a single element at a random position dominates every row",
        (
            _of(
                _SUM,
                "ninety-percent-of-a-sum",
                ("range(0, width, BLOCK)", "range(0, width - width // 10, BLOCK)"),
                code="wrong_output",
            ),
            _of(
                _SUM,
                "every-second-block-twice",
                ("range(0, width, BLOCK):\n", "range(0, width, 2 * BLOCK):\n"),
                ("tl.sum(total, axis=0)", "2.0 * tl.sum(total, axis=0)"),
                code="wrong_output",
            ),
            _of(
                _SUM,
                "all-but-the-last",
                ("mask=j < width", "mask=j < width - 1"),
                code="wrong_output",
            ),
        ),
        (
            _of(
                _SUM,
                "blocks-in-another-order",
                (
                    "j = start + tl.arange(0, BLOCK)",
                    "j = (width // BLOCK) * BLOCK - start + tl.arange(0, BLOCK)",
                ),
            ),
        ),
    ),
    Threat(
        14,
        "right for the tested shape only",
        "refused",
        "sizes declared dynamic are tried at values nobody was told; without the declaration the emitted file's guard sends other shapes to the original",
        (
            _of(
                _RELU,
                "grid-of-five",
                ("triton.cdiv(n, 256)", "5"),
                code="wrong_output",
                dynamic=("0",),
            ),
            _of(
                _SOFTMAX,
                "a-width-that-is-hard-coded",
                ("torch.empty_like(x)", "torch.zeros_like(x)"),
                (
                    "        softmax_rows[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))\n",
                    "        softmax_rows[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024)\n",
                ),
                code="wrong_output",
                dynamic=("x:1",),
            ),
        ),
        (
            _of(_RELU, "any-number-of-rows", dynamic=("0",)),
            _of(_SOFTMAX, "any-width", dynamic=("x:1",)),
        ),
    ),
    Threat(
        15,
        "arguments of the constructor ignored",
        "refused",
        "probes with tiny and huge spreads make constants such as eps matter",
        (
            _of(
                _NORM,
                "another-eps",
                ("width, norm.eps, BLOCK", "width, 1e-3, BLOCK"),
                code="wrong_output",
            ),
        ),
        (
            _of(
                _NORM,
                "eps-read-once",
                (
                    "        self.norm = nn.LayerNorm(width)\n",
                    "        self.norm = nn.LayerNorm(width)\n        self.eps = self.norm.eps\n",
                ),
                ("width, norm.eps, BLOCK", "width, self.eps, BLOCK"),
            ),
        ),
    ),
    Threat(
        16,
        "a narrower type for the products",
        "refused",
        "the budget is what the module itself loses at its own precision",
        (
            _of(
                _LINEAR,
                "half-for-float",
                ("tl.dot(x, w, total", "tl.dot(x.to(tl.float16), w.to(tl.float16), total"),
                code="wrong_output",
            ),
            _of(
                _LINEAR,
                "tf32-for-float",
                ('input_precision="ieee"', 'input_precision="tf32"'),
                code="wrong_output",
            ),
            _of(
                "half_product",
                "float16-for-bfloat16",
                ("tl.dot(x, w, total)", "tl.dot(x.to(tl.float16), w.to(tl.float16), total)"),
                code="nonfinite",
            ),
            _of(
                "half_product",
                "eight-bits-for-bfloat16",
                (
                    "tl.dot(x, w, total)",
                    "tl.dot(x.to(tl.float8e4nv).to(tl.bfloat16), w.to(tl.float8e4nv).to(tl.bfloat16), total)",
                ),
                code="wrong_output",
            ),
            _of(
                _POINTWISE,
                "bfloat16-in-a-convolution",
                ("tl.dot(w, x, total", "tl.dot(w.to(tl.bfloat16), x.to(tl.bfloat16), total"),
                code="wrong_output",
            ),
            Fixture(
                "tf32-in-a-convolution-that-may-not",
                f"{_POINTWISE}_exact",
                honest_kernel(_POINTWISE),
                "wrong_output",
            ),
        ),
        (
            _of(
                _LINEAR, "tf32-three-times", ('input_precision="ieee"', 'input_precision="tf32x3"')
            ),
            _of(_POINTWISE, "tf32-in-a-convolution"),
        ),
    ),
    Threat(
        17,
        "a narrow accumulator",
        "refused",
        "long sums of one sign against float64",
        (
            _of(
                _SUM,
                "half-accumulator",
                ("tl.zeros((BLOCK,), dtype=tl.float32)", "tl.zeros((BLOCK,), dtype=tl.float16)"),
                (
                    "total += tl.load(x_ptr + row * width + j, mask=j < width, other=0.0)",
                    "total += tl.load(x_ptr + row * width + j, mask=j < width, other=0.0).to(tl.float16)",
                ),
                ("tl.sum(total, axis=0)", "tl.sum(total.to(tl.float32), axis=0)"),
                code="wrong_output",
            ),
            _of(
                "long_half_product",
                "bfloat16-accumulator",
                (
                    "total = tl.dot(x, w, total)",
                    "total = tl.dot(x, w, total).to(tl.bfloat16).to(tl.float32)",
                ),
                code="wrong_output",
            ),
        ),
        (
            _of(_SUM, "double-accumulator", ("dtype=tl.float32", "dtype=tl.float64")),
            _of("long_half_product", "float32-accumulator"),
        ),
    ),
    Threat(
        18,
        "a shortcut that overflows or cancels",
        "refused",
        "probes with large logits and with a mean far from zero",
        (
            _of(
                _SOFTMAX,
                "no-maximum-subtracted",
                ("tl.exp(x - tl.max(x, axis=0))", "tl.exp(x)"),
                code="nonfinite",
            ),
            _of(
                _SOFTMAX,
                "maximum-of-the-first-half",
                (
                    "tl.max(x, axis=0))",
                    "tl.max(tl.where(j < columns // 2, x, float('-inf')), axis=0))",
                ),
                code="nonfinite",
            ),
            _of(
                _NORM,
                "variance-in-one-pass",
                ("tl.sum(d * d, axis=0) / width", "tl.sum(x * x, axis=0) / width - mean * mean"),
                code="wrong_output",
            ),
        ),
        (
            _of(
                _SOFTMAX,
                "powers-of-two",
                (
                    "tl.exp(x - tl.max(x, axis=0))",
                    "tl.exp2((x - tl.max(x, axis=0)) * 1.4426950408889634)",
                ),
            ),
        ),
    ),
    Threat(
        19,
        "an approximate function",
        "refused",
        "in float32 the difference is far over the budget",
        (
            _of(
                _LINEAR,
                "tanh-gelu-for-erf-gelu",
                (
                    "1.0 + tl.erf(total * 0.7071067811865476)",
                    "2.0 - 2.0 / (1.0 + tl.exp(2.0 * 0.7978845608028654 * (total + 0.044715 * total * total * total)))",
                ),
                code="wrong_output",
            ),
        ),
        (
            _of(
                _LINEAR,
                "erf-with-the-factor-outside",
                (
                    "0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))",
                    "(0.5 + 0.5 * tl.erf(total * 0.7071067811865476)) * total",
                ),
            ),
        ),
    ),
)
