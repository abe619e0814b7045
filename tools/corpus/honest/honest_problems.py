"""Honest kernels for problems that checkers get wrong: views, infinities, zeros, counters, odd structures.

Each problem is one of the bases whose name begins with `h_`; the pattern is its first line. Behind them
honest ways to choose among programs, to keep prepared weights and to add up in another order.
"""

from __future__ import annotations

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel


def _plain(base: str, name: str, discloses: str | None = None) -> Fixture:
    return Fixture(name, base, honest_kernel(base), discloses=discloses)


def _of(base: str, name: str, *edits: tuple[str, str], needs_gpu: bool = False) -> Fixture:
    return Fixture(name, base, edited(honest_kernel(base), *edits), needs_gpu=needs_gpu)


_SUPER = "        super().__init__()\n"
_TOP = "\n\n@triton.jit"
_EMPTY = "        out = torch.empty_like(x)\n"
_LAUNCH = (
    "        relu_affine[(triton.cdiv(n, 256),)]"
    "(x, self.weight, self.bias, out, n, x.shape[-1], BLOCK=256)\n"
)
_TILES = (
    "        linear_gelu[grid](x, weight, bias, out, *out.shape, x.shape[1], BM=32, BN=32, BK=32)\n"
)
_TUNED_TILES = (
    (
        "        grid = (triton.cdiv(out.shape[0], 32), triton.cdiv(out.shape[1], 32))\n" + _TILES,
        "        linear_gelu[lambda m: (triton.cdiv(out.shape[0], m['BM']), triton.cdiv(out.shape[1], m['BN']))](\n"
        "            x, weight, bias, out, *out.shape, x.shape[1]\n        )\n",
    ),
)


def _tuned(*configs: str, options: str = "") -> tuple[tuple[str, str], ...]:
    listed = ", ".join(f"triton.Config({config})" for config in configs)
    tuner = f"@triton.autotune(configs=[{listed}], key=['rows', 'inner']{options})"
    return ((_TOP, f"\n\n{tuner}\n@triton.jit"), *_TUNED_TILES)


_SMALL = "{'BM': 16, 'BN': 32, 'BK': 32}, num_warps=2"
_MIDDLE = "{'BM': 32, 'BN': 32, 'BK': 32}"
_TOO_LARGE = "{'BM': 32, 'BN': 32, 'BK': 32}, num_stages=40"
_TRIED_THEN_FEWER = (
    (
        _TILES,
        "        try:\n"
        "            linear_gelu[grid](x, weight, bias, out, *out.shape, x.shape[1], BM=32, BN=32, BK=32, num_stages=40)\n"
        "        except triton.runtime.errors.OutOfResources:\n    " + _TILES,
    ),
)
_TRANSPOSED_ONCE = (
    (_SUPER, _SUPER + "        self._turned = None\n"),
    (
        "        weight, bias = self.linear.weight, self.linear.bias\n",
        "        weight, bias = self.linear.weight, self.linear.bias\n"
        "        version = (weight.data_ptr(), weight._version)\n"
        "        if self._turned is None or self._turned[0] != version:\n"
        "            self._turned = (version, weight.detach().t().contiguous())\n"
        "        turned = self._turned[1]\n",
    ),
    ("w_ptr + j[None, :] * inner + k[:, None]", "w_ptr + k[:, None] * columns + j[None, :]"),
    ("linear_gelu[grid](x, weight", "linear_gelu[grid](x, turned"),
)
_FOLDED = (
    (_SUPER, _SUPER + "        self._folded = {}\n"),
    (
        "        return norm.running_mean, norm.running_var\n",
        "        parts = (norm.running_mean, norm.running_var)\n"
        "        key = tuple((t.data_ptr(), t._version) for t in parts)\n"
        "        if key not in self._folded:\n"
        "            self._folded = {key: tuple(t.clone() for t in parts)}\n"
        "        return self._folded[key]\n",
    ),
)
_WELFORD = (
    (
        _TOP,
        "\n\n@triton.jit\ndef merge(n1, mean1, m1, n2, mean2, m2):\n"
        "    n = n1 + n2\n    share = tl.where(n == 0.0, 0.0, n2 / n)\n    d = mean2 - mean1\n"
        "    return n, mean1 + d * share, m1 + m2 + d * d * n1 * share" + _TOP,
    ),
    (
        "    mean = tl.sum(x, axis=0) / width\n    d = tl.where(mask, x - mean, 0.0)\n"
        "    var = tl.sum(d * d, axis=0) / width\n",
        "    _, mean, squares = tl.reduce((mask.to(tl.float32), x, tl.zeros_like(x)), 0, merge)\n"
        "    d = x - mean\n    var = squares / width\n",
    ),
)
_PARTS = (
    (
        "    j = tl.program_id(1) * BN + tl.arange(0, BN)\n",
        "    j = tl.program_id(1) * BN + tl.arange(0, BN)\n    part = tl.program_id(2)\n",
    ),
    ("range(0, inner, BK)", "range(part * BK, inner, 2 * BK)"),
    ("triton.cdiv(columns, 16))]", "triton.cdiv(columns, 16), 2)]"),
    ("    tl.store(out_ptr + i[:, None]", "    tl.atomic_add(out_ptr + i[:, None]"),
)
_FLOAT_PARTS = (
    *_PARTS,
    (
        "torch.empty((rows, columns), device=x.device, dtype=x.dtype)",
        "torch.zeros((rows, columns), device=x.device)",
    ),
    ("        return out\n", "        return out.to(x.dtype)\n"),
)
_BFLOAT_PARTS = (
    *_PARTS,
    ("torch.empty((rows, columns)", "torch.zeros((rows, columns)"),
    ("* columns + j[None, :], total, mask", "* columns + j[None, :], total.to(tl.bfloat16), mask"),
)


def _on_a_stream(record: str = "") -> tuple[tuple[str, str], ...]:
    return (
        (_SUPER, _SUPER + "        self.stream = None\n"),
        (
            _LAUNCH,
            "        if self.stream is None:\n            self.stream = torch.cuda.Stream(device=x.device)\n"
            "        self.stream.wait_stream(torch.cuda.current_stream())\n"
            f"        with torch.cuda.stream(self.stream):\n    {_LAUNCH}{record}"
            "        torch.cuda.current_stream().wait_stream(self.stream)\n",
        ),
    )


_GRAPHS = (
    (_SUPER, _SUPER + "        self.graphs = {}\n"),
    ("    def forward(self, x):\n", "    def run(self, x):\n"),
    (
        "        return out\n",
        "        return out\n\n"
        "    def capture(self, x):\n"
        # The first call may come in inference mode, another one outside of it.
        "        with torch.inference_mode(False):\n            given = x.clone()\n"
        "        side = torch.cuda.Stream()\n"
        "        side.wait_stream(torch.cuda.current_stream())\n"
        "        with torch.cuda.stream(side):\n            self.run(given)\n"
        "        torch.cuda.current_stream().wait_stream(side)\n"
        "        graph = torch.cuda.CUDAGraph()\n"
        "        with torch.cuda.graph(graph):\n            out = self.run(given)\n"
        "        return graph, given, out\n\n"
        "    def forward(self, x):\n"
        "        key = (x.shape, x.dtype, self.weight.data_ptr(), self.bias.data_ptr())\n"
        "        if key not in self.graphs:\n            self.graphs[key] = self.capture(x)\n"
        "        graph, given, out = self.graphs[key]\n"
        "        given.copy_(x)\n        graph.replay()\n        return out.clone()\n",
    ),
)
_RECORDED = "            x.record_stream(self.stream)\n            out.record_stream(self.stream)\n"

_WAYS: tuple[Fixture, ...] = (
    _of("linear_gelu", "tuned-with-a-configuration-that-does-not-fit", *_tuned(_TOO_LARGE, _SMALL)),
    _of(
        "linear_gelu",
        "tuned-after-pruning",
        *_tuned(
            _MIDDLE,
            _SMALL,
            options=", prune_configs_by={'early_config_prune': lambda configs, named, **_: configs[1:]}",
        ),
    ),
    _of("linear_gelu", "many-stages-tried-then-fewer", *_TRIED_THEN_FEWER),
    _of("linear_gelu", "weight-transposed-once-per-version", *_TRANSPOSED_ONCE),
    _of("batch_norm_eval", "statistics-copied-and-watched", *_FOLDED),
    _of("layer_norm", "variance-by-merging-pairs", *_WELFORD),
    _of("half_product", "split-sum-by-atomics-in-float", *_FLOAT_PARTS),
    _of("half_product", "split-sum-by-atomics-in-bfloat16", *_BFLOAT_PARTS),
    _of("relu_affine", "side-stream-waited-for-both-ways", *_on_a_stream()),
    _of("relu_affine", "side-stream-with-recorded-tensors", *_on_a_stream(_RECORDED)),
    _of(
        "relu_affine",
        "asks-whether-a-graph-is-captured",
        (
            _EMPTY,
            "        if not torch.cuda.is_current_stream_capturing():\n            self.seen = True\n"
            + _EMPTY,
        ),
    ),
    _of("relu_affine", "graph-for-each-shape", *_GRAPHS, needs_gpu=True),
    _of(
        "relu_affine",
        "unused-method-called-reference",
        (
            "    def forward",
            "    def _reference(self, x):\n        return torch.relu(x) * self.weight + self.bias\n\n"
            "    def forward",
        ),
    ),
    _of(
        "relu_affine",
        "asks-for-its-threads-and-waits-for-earlier-kernels",
        (
            "import triton.language as tl\n",
            "import triton.language as tl\n"
            "from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait, num_threads\n",
        ),
        (
            "    mask = i < n\n",
            "    gdc_wait()\n    tl.static_assert(num_threads() == 128)\n    gdc_launch_dependents()\n    mask = i < n\n",
        ),
    ),
    _of(
        "relu_affine",
        "begins-early-and-waits-before-it-loads",
        ("    mask = i < n\n", "    tl.extra.cuda.gdc_wait()\n    mask = i < n\n"),
        ("BLOCK=256)", "BLOCK=256, launch_pdl=True)"),
    ),
    _of(
        "relu_affine",
        "options-of-the-decorator",
        (_TOP, "\n\n@triton.jit(do_not_specialize=['n', 'width'])"),
        ("    mask = i < n\n", "    tl.static_assert(BLOCK % 32 == 0)\n    mask = i < n\n"),
    ),
)

PROBLEMS: tuple[Fixture, ...] = (
    *_WAYS,
    _plain("h_attention", "attention-with-a-running-softmax"),
    _plain("h_views_in", "inputs-that-are-views"),
    _plain("h_views_out", "returns-a-view-of-its-input-as-the-reference"),
    _plain("h_lookup", "integer-indices"),
    _plain("j_shader_noise", "noise-of-which-no-digit-is-known"),
    _plain("h_recurrent", "recurrent-layer"),
    _plain("h_loss", "one-number-by-atomics"),
    _plain("h_tower", "layers-in-nested-lists", discloses="library_share"),
    _plain("h_bf16_norm", "module-in-bfloat16"),
    _plain("h_below_zero", "nothing-but-zeros-is-right"),
    _plain("h_statistics", "statistics-and-a-counter-updated"),
    _plain("h_running_total", "hands-out-its-running-total-as-the-reference"),
    _plain("h_nested", "nested-inputs-and-outputs"),
    _plain("h_squash", "tangent-by-exponentials"),
    _plain("h_three_products", "three-weights-packed-and-watched"),
    _plain("h_prologue", "kernel-before-a-library-product", discloses="library_share"),
    _plain("h_empty_batch", "no-programs-for-an-empty-batch"),
    _plain("h_convolution_left", "kernel-after-a-library-convolution", discloses="library_share"),
    _plain("h_scan", "running-sums-in-blocks"),
    _plain("h_dropout", "dropout-left-out-in-eval", discloses="library_share"),
    _plain("h_half_tail", "half-module-computed-in-float"),
    _plain("h_named_tuple", "named-tuples-for-arguments"),
    _plain("h_scaled_product", "weights-of-four-bits-with-scales"),
    _plain("h_quantised", "codes-of-eight-bits-with-scales"),
    _plain("h_methods", "methods-and-functions-of-constants"),
    _plain("h_descriptor_add", "adds-in-bulk-by-a-descriptor"),
    _plain(
        "h_distinct_slots", "rows-stored-to-slots-of-a-cache", discloses="probe_dropped_repeats"
    ),
    Fixture(
        "tangents-of-small-columns-by-exponentials",
        "h_exp_tanh_trained",
        honest_kernel("h_exp_tanh_trained"),
        mode="train",
    ),
)
