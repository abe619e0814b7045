"""The machine code of a candidate's kernel: how many instructions each source line has, and those of one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from kernelagent.domain.replies.tool_calls import Assembly
from kernelagent.tools.judge.bounds.counted_calls import count_without_contents
from kernelagent.tools.judge.bounds.real_work import step_at_full_size
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

_AROUND = 4
"""Instructions before and after those of a line."""
_MOST = 160
"""Instructions that are shown."""
_MIX = 12


def assembly(
    context: JudgeContext,
    start: Callable[[], CandidateProcess],
    kernel: str,
    line: int | None,
    form: str,
) -> Assembly:
    """Of the kernel of that name, the first that is launched for an empty one; a failure is a value."""
    try:
        with start() as process:
            process.load()
            if context.whole is None:
                context.require_same_state(context.construct(process))
            else:
                context.construct_at_full_size(process)
            source = context.sources[0]
            step = step_at_full_size(context, source)
            call = count_without_contents(process, source.full, step, sample=context.sample)
            names = tuple(dict.fromkeys(str(row["kernel"]) for row in call.launches))
            name = kernel or next(iter(names), "")
            if name not in names:
                return Assembly(name, form, line, names)
            handle = next(row["handle"] for row in call.launches if row["kernel"] == name)
            frame = process.command_executor({"kind": "code", "handle": handle, "form": form})
            rows = [(row[0], str(row[1])) for row in frame.header["instructions"]]
    except Rejected as refused:
        return Assembly(kernel, form, line, fault=refused.reason)
    by_line = Counter(place for place, _ in rows if place is not None)
    return Assembly(
        name,
        form,
        line,
        names,
        total=len(rows),
        by_line=tuple(sorted(by_line.items())),
        mix=tuple(Counter(_mnemonic(text) for _, text in rows).most_common(_MIX)),
        shown=tuple(_around(rows, line)) if line is not None else (),
    )


def _around(rows: Sequence[tuple[int | None, str]], line: int) -> list[str]:
    """The instructions of a line, marked, with some around them; gaps are said."""
    wanted = {
        near
        for at, (place, _) in enumerate(rows)
        if place == line
        for near in range(max(0, at - _AROUND), min(len(rows), at + _AROUND + 1))
    }
    shown: list[str] = []
    before = None
    for at in sorted(wanted):
        if before is not None and at != before + 1:
            shown.append(f"[... {at - before - 1} instructions ...]")
        place, text = rows[at]
        shown.append(f"{'>' if place == line else ' '} {place or '-':>4} {text}")
        before = at
    if len(shown) > _MOST:
        shown = [*shown[:_MOST], f"[... {len(shown) - _MOST} more lines ...]"]
    return shown


def _mnemonic(text: str) -> str:
    words = text.split()
    return words[1] if words[0].startswith("@") and len(words) > 1 else words[0].rstrip(";")
