"""Candidates that are right as they are called, and harm beside it: at other sizes, on one's own state, on other GPUs.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_RELU, _SILU = "relu_affine", "silu_gate"
_SHIFT, _STATE, _SKIPS = "e_token_shift", "e_rolled_state", "e_skips_bad_batches"
_N = "        n = x.numel()\n"
_RETURN = "        return out\n"
_FORWARD = "    def forward(self, x):\n"
_BIAS = "        self.bias = nn.Parameter(torch.zeros(width))\n"
_USED = ("self.weight, self.bias, out", "self.weight, self.bias + self.shift, out")
_REFUSES = '        if bad:\n            raise ValueError("not finite")\n'
_LAUNCH = "        silu_gate[(triton.cdiv(n, 256),)]"
_TUNER = "triton.autotune(configs=[triton.Config({}), triton.Config({}, num_warps=8)], key=['n'])"


def _of(base: str, name: str, *edits: tuple[str, str], discloses: str | None = None) -> Fixture:
    return Fixture(f"w-{name}", base, edited(honest_kernel(base), *edits), discloses=discloses)


def _at_other_sizes(
    name: str, *edits: tuple[str, str], code: str | None = None, discloses: str | None = None
) -> Fixture:
    """`edits` of the honest kernel, where the number of rows is declared dynamic."""
    source = edited(honest_kernel(_RELU), *edits)
    return Fixture(f"w-{name}", _RELU, source, code, discloses, dynamic=("0",))


def _table(line: str) -> tuple[tuple[str, str], ...]:
    return (_BIAS, _BIAS + line), _USED


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    14: (
        _at_other_sizes(
            "torch-at-other-sizes",
            (
                _RETURN,
                "        if x.shape[0] != GIVEN:\n            return torch.relu(x) * self.weight + self.bias\n"
                + _RETURN,
            ),
            ("\n\nclass ModelNew", "\n\nGIVEN = 6\n\n\nclass ModelNew"),
            code="kernel_not_contributing",
        ),
        _at_other_sizes(
            "sorts-at-other-sizes",
            (
                _N,
                _N
                + "        if x.shape[0] != 6:\n            sorted(range(300000), reverse=True)\n",
            ),
            discloses="host_time",
        ),
    ),
    26: (
        _of(
            _SHIFT,
            "reads-what-another-program-writes-of-one-tensor",
            ("(x, shifted, total, out,", "(x, shifted, x, out,"),
            (
                "        put_back[(triton.cdiv(x.numel(), 256),)](total, x, x.numel(), BLOCK=256)\n",
                "",
            ),
            discloses="differs_on_one_for_two",
        ),
        _of(
            _STATE,
            "reads-what-another-program-writes-of-its-state",
            (
                "    tl.store(out_ptr + i, (0.5 * tl.load(state_ptr + i, mask=mask) + x) * 2.0, mask=mask)\n",
                "    new = 0.5 * tl.load(state_ptr + i, mask=mask) + x\n"
                "    tl.store(state_ptr + i, new, mask=mask)\n"
                "    tl.store(out_ptr + i, new * 2.0, mask=mask)\n",
            ),
            ("        put_back[grid](out, self.state, x.numel(), BLOCK=64)\n", ""),
            discloses="differs_on_own_state",
        ),
    ),
    27: (
        _of(
            _SKIPS,
            "counts-before-it-refuses",
            (_REFUSES, ""),
            (_RETURN, _REFUSES + _RETURN),
            discloses="state_after_refusal",
        ),
    ),
    41: (
        _of(
            _RELU,
            "table-that-stays-on-its-gpu",
            *_table("        self.shift = torch.zeros(width, device='cuda')\n"),
            discloses="not_moved",
        ),
    ),
    51: (
        _of(
            _RELU,
            "out-of-the-graph",
            (_FORWARD, "    @torch.compiler.disable\n" + _FORWARD),
            discloses="breaks_the_graph",
        ),
    ),
    80: (
        _of(
            _SILU,
            "makes-its-tuner-in-each-call",
            (
                _LAUNCH,
                f"        tuned = {_TUNER}(silu_gate)\n        tuned[(triton.cdiv(n, 256),)]",
            ),
            discloses="compiles_anew",
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    14: (
        _at_other_sizes(
            "other-blocks-at-other-sizes",
            (
                "[(triton.cdiv(n, 256),)](x, self.weight, self.bias, out, n, x.shape[-1], BLOCK=256)",
                "[(triton.cdiv(n, 256 if n > 4096 else 128),)](\n            x, self.weight, self.bias, out, n, "
                "x.shape[-1], BLOCK=256 if n > 4096 else 128\n        )",
            ),
        ),
    ),
    26: (
        _of(_SHIFT, "writes-what-others-read-in-a-second-launch"),
        _of(_STATE, "writes-its-state-in-a-second-launch"),
    ),
    27: (_of(_SKIPS, "refuses-before-it-counts"),),
    41: (
        _of(
            _RELU,
            "table-that-moves-with-it",
            *_table(
                "        self.register_buffer('shift', torch.zeros(width), persistent=False)\n"
            ),
        ),
    ),
}
