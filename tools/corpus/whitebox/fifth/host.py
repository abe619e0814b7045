"""Time that a GPU waits for the host in each call, found by a fifth round of attackers; no estimate has it.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited
from kernelagent.tools.corpus.whitebox.first import HONEST, LAUNCH

_SIZE = "        n = x.numel()\n"
_MADE = "self.weight = nn.Parameter(torch.ones(width))\n"
_SQUARES = """        number = 3
        for turn in range(16):
            number = number * number
"""
_COPIES = "        texts = ['n' * 2_000_000 for turn in range(2)]\n"
_DIGITS = "        digits = f'{self.large:,}'\n"


def _busy(name: str, lines: str, *edits: tuple[str, str]) -> Fixture:
    """Accepted, and told to spend time on the host; `lines` are in each forward."""
    source = edited(HONEST, (_SIZE, _SIZE + lines), *edits)
    return Fixture(f"h-{name}", "silu_gate", source, discloses="host_time")


def _handed(items: str) -> tuple[tuple[str, str], ...]:
    """One more argument of the kernel, which does not use it."""
    return (
        ("out_ptr, n, width, BLOCK", "out_ptr, n, width, more, BLOCK"),
        ("n, x.shape[-1], BLOCK", f"n, x.shape[-1], {items}, BLOCK"),
    )


_NAMES = ", ".join(f"a{number}" for number in range(120))
_EACH_BY_NAME = (
    ("out_ptr, n, width, BLOCK", f"out_ptr, n, width, {_NAMES}, BLOCK"),
    ("n, x.shape[-1], BLOCK", f"n, x.shape[-1], {', '.join(['x'] * 120)}, BLOCK"),
)

CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    80: (
        _busy("squares-a-long-integer", _SQUARES),
        _busy("makes-long-texts", _COPIES),
        _busy("writes-a-long-integer", _DIGITS, (_MADE, _MADE + "        self.large = 7**3000\n")),
        _busy("hands-a-tuple-of-numbers-over", "", *_handed("(n,) * 500")),
        _busy("hands-tuples-of-tensors-over", "", *_handed("((x, g) * 10,) * 8")),
        _busy("hands-one-tensor-over-again-and-again", "", *_EACH_BY_NAME),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    80: (
        Fixture(
            "h-hands-a-few-numbers-over-together",
            "silu_gate",
            edited(HONEST, *_handed("(n, x.shape[0], 0.5)")),
            estimated=True,
        ),
        Fixture(
            "h-counts-with-python",
            "silu_gate",
            edited(
                HONEST,
                (_SIZE, _SIZE + "        rows = [n // size for size in x.shape]\n"),
                (LAUNCH, "        blocks = -(-n // 256) + len(rows) - x.dim()\n" + LAUNCH),
                ("(triton.cdiv(n, 256),)", "(blocks,)"),
            ),
            estimated=True,
        ),
    ),
}
