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


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        _edited(
            _BOXES, "probabilities-in-steps", (_P, _P + "    p = tl.floor(p * 8192.0) / 8192.0\n")
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    6: (_honest(_BOXES, "probabilities-beside-boxes"),),
}
