"""What a fifth round of attackers found in values: errors that cancel over the whole, bands that no probe reached.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_PAIRS, _HALF_NORM = "routed_pairs", "half_layer_norm"
_NAMED = "tl.where(mask[:, None], named, 0)"
_SCALED = "    y = about * scale * w + b\n"


def _of(base: str, name: str, *edits: tuple[str, str], **how: str) -> Fixture:
    return Fixture(f"f-{name}", base, edited(honest_kernel(base), *edits), **how)  # type: ignore[arg-type]


def _wrong(base: str, name: str, after: str, lines: str) -> Fixture:
    return _of(base, name, (after, after + lines), code="wrong_output")


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    14: (
        _of(
            _PAIRS,
            "counts-each-tie-for-its-last-expert",
            (
                _NAMED,
                "tl.where(mask[:, None], (x == next[:, None]).to(tl.int64) + "
                "((x == best[:, None]) & (best > next)[:, None]).to(tl.int64), 0)",
            ),
            code="wrong_output",
        ),
        _wrong(
            _HALF_NORM,
            "columns-up-and-down-by-less-than-the-gate",
            _SCALED,
            "    y = y * (1.0065 - 0.013 * (j % 2).to(tl.float32))\n",
        ),
        _wrong(
            _HALF_NORM,
            "rows-off-by-one-small-part-of-their-size",
            _SCALED,
            "    y = y + 0.0045 * tl.sqrt(tl.sum(tl.where(mask, y * y, 0.0), axis=0) / width)\n",
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    14: (
        _of(_PAIRS, "counts-the-experts-it-names"),
        _of(
            _PAIRS,
            "names-the-last-of-equal-experts",
            (
                "tl.max(x, axis=1, return_indices=True)",
                "tl.max(x, axis=1, return_indices=True, return_indices_tie_break_left=False)",
            ),
        ),
        _of(_HALF_NORM, "rounds-at-random"),
        _of(
            _HALF_NORM,
            "rounds-a-scale-for-each-row",
            ("width + 1e-5)\n", "width + 1e-5).to(tl.bfloat16).to(tl.float32)\n"),
        ),
    ),
}
