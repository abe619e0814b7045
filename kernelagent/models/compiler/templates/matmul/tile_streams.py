"""Tiles as one stream of turns that programs share out equally, so that none idles while others end.

Stream-K (Osama et al. 2023, arXiv:2301.03598): turns of the loop over the inner dimension are numbered
through all tiles. Where tiles fill the GPU more than once, only what is left over of whole rounds, and one
round more, is shared out; every other tile has a program of its own. A program that begins or ends
within a tile leaves a part, which a second kernel adds up, always in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelagent.models.compiler.choices import Config

PROGRAMS = "PROGRAMS"
"""The block size that says how many programs share tiles."""


def is_streamed(config: Config) -> bool:
    """Whether programs share out turns."""
    return PROGRAMS in config.blocks


def whole_tiles(tiles: int, programs: int) -> int:
    """How many tiles have a program of their own."""
    return max(tiles // programs - 1, 0) * programs


def streamed(
    counts: Sequence[str],
    tiles: str,
    place: Sequence[str],
    loop: Sequence[str],
    finish: Sequence[str],
) -> list[str]:
    """The body of the kernel.

    `counts`: how many tiles there are; `tiles`: of all matrices; `place`: where the tile of the number
    `tile` lies; `loop`: its sum from `begin` to `end`; `finish`: what becomes of a whole one.
    """
    inside = [
        "tile = turn // turns",
        "begin = turn % turns * BLOCK_K",
        "end = tl.minimum(begin + (last - turn) * BLOCK_K, n_inner)",
        "turn += tl.cdiv(end - begin, BLOCK_K)",
        *place,
        *loop,
        "if (begin == 0) & (end == n_inner):",
        *_indented(finish),
        "else:",
        *_indented(
            [
                "# A program leaves two parts at most: of the tile it begins within, and of the one it ends within.",
                "slot = 2 * program + (begin == 0).to(tl.int32)",
                f"lanes = {_LANES.format(rows='tl.arange(0, BLOCK_M)[:, None]')}",
                "tl.store(parts_ptr + slot * (BLOCK_M * BLOCK_N) + lanes, product)",
            ]
        ),
    ]
    return [
        "program = tl.program_id(0)",
        *counts,
        *_shares(tiles),
        "if program < PROGRAMS:",
        *_indented(["turn = program * each", "last = tl.minimum(turn + each, shared)"]),
        "else:",
        *_indented(["turn = shared + (program - PROGRAMS) * turns", "last = turn + turns"]),
        "while turn < last:",
        *_indented(inside),
    ]


def stream_summed(
    counts: Sequence[str], tiles: str, place: Sequence[str], finish: Sequence[str]
) -> list[str]:
    """The body of the kernel that adds up parts, ROWS rows of a tile a program; see `streamed`."""
    inside = [
        "final = ((tile + 1) * turns - 1) // each",
        *place,
        f"lanes = {_LANES.format(rows='(down + tl.arange(0, ROWS)[:, None])')}",
        "product = tl.load(parts_ptr + (2 * cut - 1) * (BLOCK_M * BLOCK_N) + lanes)",
        "for other in range(cut, final + 1):",
        *_indented(["product += tl.load(parts_ptr + 2 * other * (BLOCK_M * BLOCK_N) + lanes)"]),
        *finish,
    ]
    return [
        "# Adds up the parts of a tile that the end of a share cuts, always in the same order.",
        "strips = BLOCK_M // ROWS",
        "cut = tl.program_id(0) // strips + 1",
        "down = tl.program_id(0) % strips * ROWS",
        *counts,
        *_shares(tiles),
        "at = cut * each",
        "tile = at // turns",
        "if (at < shared) & (at % turns != 0) & (at - each <= tile * turns):",
        *_indented(inside),
    ]


_LANES = "{rows} * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]"


def _shares(tiles: str) -> list[str]:
    return [
        "turns = tl.cdiv(n_inner, BLOCK_K)",
        f"count = {tiles}",
        "# Each of the first PROGRAMS programs has an equal share of the tiles that whole rounds leave; others have one.",
        "whole = tl.maximum(count // PROGRAMS - 1, 0) * PROGRAMS",
        "shared = (count - whole) * turns",
        "each = tl.cdiv(shared, PROGRAMS)",
    ]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for text in lines for line in text.splitlines()]
