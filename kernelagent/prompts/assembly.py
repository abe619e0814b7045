"""The machine code of a kernel in words and listings."""

from __future__ import annotations

from kernelagent.domain.replies.tool_calls import Assembly
from kernelagent.prompts.tools.probed import fault_lines

_LINES = 40


def assembly_text(assembly: Assembly) -> str:
    """Instructions by source line and kind, and those of the line that was asked for."""
    if assembly.fault is not None:
        message = f"Stopped ({assembly.fault.code}): {assembly.fault.message}"
        return "\n".join([message, *fault_lines(assembly.fault)])
    launched = ", ".join(assembly.kernels) or "none"
    if not assembly.total:
        return f"No kernel `{assembly.kernel}` is launched; there is {launched}."
    lines = [
        f"Kernel `{assembly.kernel}`: {assembly.total} instructions of {assembly.form.upper()}. "
        f"Launched are {launched}."
    ]
    most = sorted(assembly.by_line, key=lambda row: -row[1])[:_LINES]
    by_line = ", ".join(f"{line}: {count}" for line, count in sorted(most))
    lines.append(f"By source line: {by_line or 'of no line of the file'}.")
    lines.append(f"Commonest: {', '.join(f'{name} {count}' for name, count in assembly.mix)}.")
    if assembly.line is not None:
        if assembly.shown:
            lines += [f"Line {assembly.line}, marked with >:", *assembly.shown]
        else:
            lines.append(f"Line {assembly.line} has no instruction of its own.")
    return "\n".join(lines)


def assembly_summary(assembly: Assembly) -> str:
    """One line."""
    if assembly.fault is not None:
        return assembly.fault.in_one_line
    return f"{assembly.kernel}, {assembly.total} instructions of {assembly.form}"
