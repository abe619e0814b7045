"""The last screen of a run: what was written and its number, how sure that is, what is next, and the whole model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelagent.domain.evaluation import OUT_OF_TIME, Evaluation
from kernelagent.domain.whole_model import WholeModel
from kernelagent.prompts.next_steps import next_steps
from kernelagent.prompts.wording import number, summary


def outcome_text(
    winner: Evaluation | None, path: Path | None, why: str, again: str, submodule: str | None = None
) -> str:
    """The last screen of a run: what was written and its number, how sure that is, and what is next.

    `again`, `submodule`: as `next_steps` takes them.
    """
    if path is None or winner is None:
        return f"no better module: {why}\n"
    kernels = ", ".join(dict.fromkeys(k.name for k in winner.kernels))
    sets = "; ".join(
        f"{s.name} {s.arguments}" + (f", executed at {s.executed}" if s.executed else "")
        for s in winner.input_sets
    )
    word = "verified, not timed" if winner.timing is None else "verified and certified faster"
    lines = [
        f"{word}: {path}",
        f"  what: {kernels}; {number(winner)}",
        f"  how sure: {how_sure(winner)}, on {sets}",
        *(
            [f"  where: {where}{not_all_tried(winner)}"]
            if (where := where_verified(winner.envelope))
            else []
        ),
        *(
            f"  {'next: ' if place == 0 else '      '}{step.text}"
            for place, step in enumerate(next_steps(winner, path, again, submodule))
        ),
    ]
    if winner.disclosures:
        lines.append(f"  to know: {remarks_line(winner)}")
    return "\n".join(lines) + "\n"


def remarks_line(winner: Evaluation) -> str:
    """How many remarks an acceptance has, and where they stand; empty where it has none."""
    count = len(winner.disclosures)
    return (
        f"{count} remark{'s' * (count > 1)}, in the file's header and the report" if count else ""
    )


_SHAPES = 6


def where_verified(envelope: Mapping[str, Any]) -> str:
    """The sizes that the kernels answer; empty where nothing is known of that."""
    shown = [
        ", ".join(_shape(value["shape"]) for value in given if "shape" in value)
        for item in envelope.get("input_sets", ())
        if (given := [*item["args"], *item.get("kwargs", {}).values()])
    ]
    shown = [text for text in dict.fromkeys(shown) if text]
    if not shown:
        return ""
    more = f" and {len(shown) - _SHAPES} more" if len(shown) > _SHAPES else ""
    several = "; ".join(shown[:_SHAPES])
    return f"the kernels answer inputs of {several}{more}; the original module answers all others"


def not_all_tried(winner: Evaluation) -> str:
    """Where there was no time for all sizes near the given ones, how to give it; else empty."""
    cut = any(d.code == "envelope" and OUT_OF_TIME in d.message for d in winner.disclosures)
    return " (there was no time to try more sizes: --envelope-seconds gives it)" if cut else ""


def _shape(sizes: Sequence[Any]) -> str:
    """A size that may vary is one range, or `any`."""
    return f"[{', '.join(_size(size) for size in sizes)}]"


def _size(size: Any) -> str:
    if not isinstance(size, Mapping):
        return str(size)
    step = f" by {size['multiple_of']}" if size.get("multiple_of", 1) > 1 else ""
    return f"{size.get('min', 0)} to {size.get('max', 'any')}{step}"


def how_sure(winner: Evaluation) -> str:
    """Trials and the worst error, in a phrase."""
    result = winner.correctness
    if result is None:
        return summary(winner).partition(";")[0]
    share = (
        f", the worst error {result.error / result.budget:.0%} of its budget"
        if result.budget
        else ""
    )
    return f"{result.trials} trials against a float64 reference{share}"


def putting_back(emitted: Path, places: Sequence[str]) -> tuple[str, ...]:
    """The lines of Python that put an emitted part into a live model."""
    return (
        f"  from {emitted.stem} import optimized",
        f"  for path in {list(places)}:",
        "      model.set_submodule(path, optimized(model.get_submodule(path)))",
    )


def whole_model_lines(whole: WholeModel) -> tuple[str, str]:
    """Whether the whole model stayed right with the part in it, and what its time is said to be."""
    if whole.before_us is None or whole.after_us is None:
        time = "not measured, so nothing is said about its gain"
    else:
        of = (
            " of a forward alone, without its backward pass; the part's share of it is reckoned with the gain of the "
            "part's forward and backward together"
        )
        time = (
            f"not timed; estimate {whole.before_us:.1f} µs before, {whole.after_us:.1f} µs after"
            f"{of if whole.trains else ''} "
            f"(estimates of whole models: docs/how-estimates-work.md says how far they can be trusted)"
        )
    return f"{whole.why}, {whole.calls} calls of the part by its kernels", time
