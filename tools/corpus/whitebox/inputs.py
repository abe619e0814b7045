"""Candidates that are right on everything the user's own inputs show, and what can be said of the rest.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel
from kernelagent.tools.corpus.whitebox.first import LAUNCH, RETURN, cheat

_MASK, _RAGGED, _GROUPED = "given_mask", "ragged_sums", "grouped_product"
_TABLE = "[t.data_ptr() for t in ts]"
_KEPT = """

KEPT = []


def in_rows(index):
    for known, made in KEPT:
        if known is index:
            return made
    made = index.contiguous().clone()
    KEPT.append((index, made))
    del KEPT[:-4]
    return made
"""


def _wrong_on(name: str, where: str, discloses: str) -> Fixture:
    """Right but for inputs with an extreme value: accepted, and the verdict says it."""
    body = LAUNCH + f"        if bool(({where}).any()):\n            out.fill_(7.0)\n" + RETURN
    fixture = cheat(name, body, "")
    return Fixture(fixture.name, fixture.problem, fixture.source, discloses=discloses)


def _of(base: str, name: str, *edits: tuple[str, str], **how: Any) -> Fixture:
    return Fixture(f"w-{name}", base, edited(honest_kernel(base), *edits), **how)


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    20: (
        _wrong_on("sevens-where-nan-comes-in", "x.isnan()", "differs_on_nan"),
        _wrong_on("sevens-where-infinity-comes-in", "x.isinf()", "differs_on_infinity"),
        _wrong_on("sevens-where-the-largest-come-in", "x.abs() > 1e38", "differs_on_largest"),
    ),
    3: (
        _of(
            "silu_gate",
            "reaches-out-where-nan-comes-in",
            (
                "tl.load(g_ptr + i, mask=mask)",
                "tl.load(g_ptr + i + tl.where(x != x, 1 << 24, 0), mask=mask)",
            ),
            code="out_of_bounds",
        ),
    ),
    14: (
        _of(
            _MASK,
            "causal-whatever-the-mask",
            (
                "tl.load(mask_ptr + row % size * size + j, mask=inside, other=0) != 0",
                "j <= row % size",
            ),
            discloses="values_never_varied_mask",
        ),
        _of(
            _RAGGED,
            "offsets-hard-coded",
            (
                "begin = tl.load(offset_ptr + group)",
                "begin = tl.minimum(group * 4, 4) + (group // 2) * 5 + (group // 3) * 8",
            ),
            discloses="values_never_varied_offsets",
        ),
    ),
    75: (
        # Right as long as nobody writes other integers to where these are.
        _of(
            "h_lookup",
            "keeps-what-it-made-of-an-index-by-the-index",
            ("\n\nclass ModelNew", _KEPT + "\n\nclass ModelNew"),
            ("index = index.contiguous()", "index = in_rows(index)"),
            code="wrong_output",
            also=("stale_output", "insensitive"),
        ),
    ),
    45: (
        _of(
            _GROUPED,
            "table-beyond-its-tensor",
            (_TABLE, "[t.data_ptr() + 65536 for t in ts]"),
            code="out_of_bounds",
        ),
        _of(
            _GROUPED,
            "table-of-invented-addresses",
            (_TABLE, "[65536 for t in ts]"),
            code="out_of_bounds",
        ),
        _of(
            _GROUPED,
            "table-of-a-tensor-that-has-gone",
            (_TABLE, "[t.clone().data_ptr() for t in ts]"),
            code="out_of_bounds",
        ),
    ),
}

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    14: (_of(_MASK, "reads-the-mask"), _of(_RAGGED, "reads-the-offsets")),
    45: (_of(_GROUPED, "table-of-its-own-tensors"),),
    75: (
        _of(
            "h_lookup",
            "makes-a-copy-of-its-index-in-each-call",
            ("index = index.contiguous()", "index = index.clone()"),
        ),
    ),
}
