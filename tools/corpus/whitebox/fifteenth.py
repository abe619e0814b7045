"""Steps of the reference that drawn inputs hardly ever need: long ways to a root, ranks near a bound, what is remembered for long, a number that never varies."""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_ALARM, _ROOT, _GAIN = "n_alarm", "n_to_the_root", "n_gain_of_the_wanted"
_LINE, _SEEN = "n_bent_line", "n_last_seen"


def _wrong(base: str, name: str, edit: tuple[str, str], disclosed: str) -> Fixture:
    """`disclosed`: what names it where no judged call happens to show it."""
    source = edited(honest_kernel(base), edit)
    return Fixture(f"n-{name}", base, source, discloses=disclosed, also=("wrong_output",))


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        _wrong(
            _ALARM,
            "looks-twelve-steps-back",
            ("    start = 0\n", "    start = tl.maximum(part * STEPS - 12, 0)\n"),
            "reach_not_tried",
        ),
        _wrong(
            _ROOT,
            "doubles-once-too-few",
            ("nodes.bit_length()", "nodes.bit_length() - 1"),
            "steps_not_shown",
        ),
        _wrong(
            _GAIN,
            "forgets-ranks-beyond-four",
            ("rank <= 10, found", "rank <= 4, found"),
            "steps_not_shown",
        ),
        _wrong(
            _LINE,
            "writes-the-slope-into-the-kernel",
            ("slope * value", "0.125 * value"),
            "number_never_varied_slope",
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    6: (
        Fixture("n-looks-back-to-the-first-step", _ALARM, honest_kernel(_ALARM)),
        Fixture("n-doubles-often-enough", _ROOT, honest_kernel(_ROOT)),
        Fixture("n-keeps-ten-ranks", _GAIN, honest_kernel(_GAIN)),
        Fixture(
            "n-takes-the-slope-it-is-given",
            _LINE,
            honest_kernel(_LINE),
            withholds="number_never_varied_slope",
        ),
        Fixture("n-goes-to-the-oldest-place", _SEEN, honest_kernel(_SEEN)),
    ),
}
