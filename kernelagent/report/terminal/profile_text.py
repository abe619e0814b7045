"""One evaluation's profile for a person at a terminal: its kernels, its headroom, its roofline.

The drawings are those of the report; what the tools at hand could not know stays an empty cell.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.profile import ModuleEstimate, ReferenceProfile
from kernelagent.prompts.feedback import headroom_sentence, size
from kernelagent.prompts.wording import number
from kernelagent.report.charts.png import to_png
from kernelagent.report.charts.roofline import roofline_svg
from kernelagent.report.document import Chart, Paragraph, pieces
from kernelagent.report.evidence import ceilings, headroom_words, roofline, sentence, works
from kernelagent.report.terminal.browse_text import kernels_table
from kernelagent.storage.git_history import harmless

if TYPE_CHECKING:
    from rich.console import Console


def print_reference(console: Console, profile: ReferenceProfile) -> None:
    """The module's own operations, dearest first, and what is the least its input set needs."""
    word = "estimate, not timed" if profile.tier == "counted" else "traced by torch.profiler"
    _say(
        console,
        f"The module itself on {profile.input_set} {profile.arguments}: {profile.us:.1f} µs ({word})",
    )
    table = Table(box=None, pad_edge=False)
    for title in ("operation", "launches", "µs", "share", "moved", "bound by"):
        table.add_column(title, justify="left" if title in ("operation", "bound by") else "right")
    for row in profile.operations:
        moved = "" if row.moved_bytes is None else size(row.moved_bytes)
        cells = (harmless(row.name), str(row.launches), f"{row.us:.1f}", f"{row.share:.0%}", moved)
        table.add_row(*cells, row.bound or "")
    console.print(table)
    if profile.headroom is not None:
        _say(console, headroom_sentence(profile.headroom))


def print_estimate(console: Console, estimate: ModuleEstimate) -> None:
    """One line for eager, one for torch.compile, each with its 80 % interval and the word estimate."""
    mode = "as its constructor leaves it" if estimate.mode == "as built" else "in eval mode"
    _say(console, f"Estimates, not timed, for {estimate.input_set} {estimate.arguments}, {mode}:")
    for name, way in (("eager", estimate.eager), ("torch.compile", estimate.compile)):
        us = way.us
        _say(
            console,
            f"  {name}: {us.value:,.1f} µs (80 %: {us.low:,.1f} to {us.high:,.1f}), bound by {way.bound}",
        )
    _say(console, f"  the least possible by bytes and operations: {estimate.least_us:,.1f} µs")


def print_profile(console: Console, evaluation: Evaluation) -> None:
    """The number with its label, a sentence and a row for each kernel, what is left, the roofline."""
    _say(console, number(evaluation))
    if evaluation.kernels:
        console.print(kernels_table(evaluation.kernels))
    for kernel in sorted(evaluation.kernels, key=lambda k: -(k.share_of_device_time or 0.0)):
        words = pieces(sentence(kernel, evaluation.device))
        _say(console, "".join(w if isinstance(w, str) else w.text for w in words))
    left = headroom_words(evaluation)
    if left is not None:
        _say(console, left)
    for block in roofline(evaluation):
        if isinstance(block, Chart):
            _say(console, block.text)
        elif isinstance(block, Paragraph) and isinstance(block.words, str):
            _say(console, block.words)


def save_roofline(evaluation: Evaluation, file: Path) -> None:
    """The roofline as `.svg` or `.png`; raises `UsageError` where there is nothing to draw, or no way."""
    known, result = ceilings(evaluation.device), works(evaluation)
    if known is None or not result:
        raise UsageError(
            "there is no roofline to draw: it needs a kernel whose operations, bytes and time "
            "are known, on a device whose ceilings are known"
        )
    message = "measured" if evaluation.timing is not None else "estimate, not timed"
    drawing = roofline_svg(result, known, title=f"Roofline ({message})")
    if file.suffix == ".png":
        file.write_bytes(to_png(drawing))
    elif file.suffix == ".svg":
        file.write_text(drawing, encoding="utf-8")
    else:
        raise UsageError(f"{file}: a roofline is written as .svg or .png; change the name's ending")


def _say(console: Console, text: str) -> None:
    console.print(harmless(text), soft_wrap=True, markup=False, highlight=False)
