"""The answers of the tools in words: what a writer reads, and the one line for terminal, TUI and report."""

from __future__ import annotations

from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.tool_calls import ToolResult
from kernelagent.prompts.assembly import assembly_summary, assembly_text
from kernelagent.prompts.checked import checked_summary, checked_text
from kernelagent.prompts.probed import (
    probed_summary,
    probed_text,
    reference_summary,
    reference_text,
)
from kernelagent.prompts.swept import benched_summary, benched_text, swept_summary, swept_text


def answer_text(result: ToolResult, device: DeviceFacts) -> str:
    """The whole answer, without what is left of the budget."""
    if result.unfit is not None:
        return f"Not answered: {result.unfit}."
    if result.checked is not None:
        return checked_text(result.checked, device)
    if result.probed is not None:
        return probed_text(result.probed)
    if result.reference is not None:
        return reference_text(result.reference)
    if result.assembly is not None:
        return assembly_text(result.assembly)
    if result.swept is not None:
        return swept_text(result.swept)
    if result.benched is not None:
        return benched_text(result.benched)
    return "Nothing came of it."


def result_summary(result: ToolResult) -> str:
    """One line."""
    if result.unfit is not None:
        return f"not answered: {result.unfit}"
    if result.checked is not None:
        return checked_summary(result.checked)
    if result.probed is not None:
        return probed_summary(result.probed)
    if result.reference is not None:
        return reference_summary(result.reference)
    if result.assembly is not None:
        return assembly_summary(result.assembly)
    if result.swept is not None:
        return swept_summary(result.swept)
    if result.benched is not None:
        return benched_summary(result.benched)
    return "nothing came of it"
