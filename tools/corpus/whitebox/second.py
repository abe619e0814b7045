"""What a second round of attackers found between the values: small columns, state that grows, places in memory.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_BOXES = "boxes_beside_classes"
_P = "    p = tl.sigmoid(score)\n"


def _edited(
    base: str, name: str, *edits: tuple[str, str], code: str | None = "wrong_output"
) -> Fixture:
    return Fixture(f"s-{name}", base, edited(honest_kernel(base), *edits), code)


def _honest(base: str, name: str, *edits: tuple[str, str]) -> Fixture:
    return _edited(base, name, *edits, code=None)


def _by_kernel_of(
    other: str, base: str, name: str, *edits: tuple[str, str], discloses: str | None = None
) -> Fixture:
    """With the kernel of another problem, which computes the same on other inputs."""
    return Fixture(f"s-{name}", base, edited(honest_kernel(other), *edits), discloses=discloses)


_LOG, _LOSSES, _Y = "log_of_shares", "losses_of_labels", "    y = tl.log(x)\n"
_BATCHES, _PLACES, _SILU, _COUNTS = "mean_of_batches", "last_places", "silu_gate", "i_histogram"
_SEEN = "    seen = tl.load(seen_ptr).to(tl.float32)\n"
_LAST = '        last.scatter_reduce_(0, ids, at, "amax")\n'
_GATED = "x * tl.sigmoid(x) * g * w"
_ADDED = "    tl.atomic_add(out_ptr + tl.arange(0, BINS), found)\n"
_ZEROED = (
    "    if tl.program_id(0) == 0:\n"
    "        tl.atomic_and(out_ptr + tl.arange(0, BINS), tl.zeros((BINS,), tl.int32))\n"
)

CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        _edited(
            _BOXES, "probabilities-in-steps", (_P, _P + "    p = tl.floor(p * 8192.0) / 8192.0\n")
        ),
        _edited(
            _BATCHES,
            "wrong-from-the-third-batch",
            (_SEEN, _SEEN + "    seen = tl.minimum(seen, 2.0)\n"),
        ),
        _edited(
            _SILU,
            "zeros-for-a-part-of-a-batch",
            (_GATED, f"tl.where(x_ptr.to(tl.int64) % 64 == 0, {_GATED}, 0.0)"),
        ),
        _edited(_PLACES, "the-last-write-stays", (_LAST, "        last.scatter_(0, ids, at)\n")),
        _edited(
            _SILU,
            "zeros-where-a-gpu-allocates",
            (_GATED, f"tl.where(out_ptr.to(tl.int64) % 512 == 0, 0.0, {_GATED})"),
        ),
    ),
    20: (
        _by_kernel_of(
            "log_rows",
            _LOG,
            "a-finite-logarithm-of-zero",
            (_Y, "    y = tl.where(x == 0.0, -103.27893, tl.log(x))\n"),
            discloses="differs_on_zero",
        ),
        _by_kernel_of(
            "i_cross_entropy",
            _LOSSES,
            "labels-that-are-left-out-have-a-loss",
            ("tl.where(label == -100, 0.0, lse - own)", "lse - own"),
            discloses="differs_on_integers",
        ),
    ),
    26: (
        _edited(_COUNTS, "zeroes-while-others-count", (_ADDED, _ZEROED + _ADDED), code="data_race"),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        _honest(_BOXES, "probabilities-beside-boxes"),
        _honest(_BATCHES, "mean-of-all-batches"),
        _honest(_PLACES, "the-largest-place-stays"),
    ),
    20: (
        _by_kernel_of("log_rows", _LOG, "logarithms-that-may-be-infinite"),
        _by_kernel_of("i_cross_entropy", _LOSSES, "labels-that-may-be-left-out"),
    ),
    26: (_honest(_COUNTS, "counts-that-were-zeroed-before"),),
}
