"""What the thirteenth and fourteenth round left: relations between inputs, structure along time, the user's own sizes, checked inputs."""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_RIGHT, _RUNS, _ROWS, _BOXES = "m_right_already", "m_rising_runs", "m_many_rows", "m_overlaps"


def _wrong(base: str, name: str, *edits: tuple[str, str], disclosed: str | None = None) -> Fixture:
    """`disclosed`: what names it where no judged call happens to show it."""
    source = edited(honest_kernel(base), *edits)
    if disclosed is not None:
        return Fixture(f"m-{name}", base, source, discloses=disclosed, also=("wrong_output",))
    return Fixture(f"m-{name}", base, source, code="wrong_output", also=("nonfinite",))


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        _wrong(
            _RIGHT,
            "never-halves-a-loss",
            ("    loss = tl.where(first == target, 0.5 * loss, loss)\n", ""),
        ),
        _wrong(
            _RUNS,
            "looks-sixteen-steps-back",
            (
                "tl.where(x > before, run + 1.0, 0.0)",
                "tl.where(x > before, tl.minimum(run + 1.0, 16.0), 0.0)",
            ),
        ),
        _wrong(
            _ROWS,
            "leaves-the-last-rows-out",
            ("triton.cdiv(rows, 16)", "rows // 16"),
        ),
        _wrong(
            _BOXES,
            "clamps-the-product-alone",
            ("tl.maximum(wide, 0.0) * tl.maximum(high, 0.0)", "tl.maximum(wide * high, 0.0)"),
            disclosed="differs_on_checked_inputs",
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        Fixture("m-halves-a-loss-that-is-right", _RIGHT, honest_kernel(_RIGHT)),
        Fixture("m-looks-back-to-the-beginning", _RUNS, honest_kernel(_RUNS)),
        Fixture("m-takes-the-last-rows-in", _ROWS, honest_kernel(_ROWS)),
        Fixture(
            "m-clamps-both-sides",
            _BOXES,
            honest_kernel(_BOXES),
            withholds="differs_on_checked_inputs",
        ),
    ),
}
