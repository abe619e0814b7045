"""The answers of the tools in words: what a writer reads, and the one line for terminal, TUI and report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.replies.tool_calls import (
    Assembly,
    Benched,
    Checked,
    Library,
    Probed,
    ReferenceLook,
    Swept,
    ToolResult,
)
from kernelagent.prompts.assembly import assembly_summary, assembly_text
from kernelagent.prompts.tools.checked import checked_summary, checked_text
from kernelagent.prompts.tools.probed import (
    probed_summary,
    probed_text,
    reference_summary,
    reference_text,
)
from kernelagent.prompts.tools.swept import benched_summary, benched_text, swept_summary, swept_text


def answer_text(result: ToolResult, device: DeviceFacts) -> str:
    """The whole answer, without what is left of the budget."""
    if result.unfit is not None:
        return f"Not answered: {result.unfit}."
    part = result.part
    return "Nothing came of it." if part is None else _WORDS[type(part)].text(part, device)


def result_summary(result: ToolResult) -> str:
    """One line."""
    if result.unfit is not None:
        return f"not answered: {result.unfit}"
    part = result.part
    return "nothing came of it" if part is None else _WORDS[type(part)].summary(part)


def _library_text(library: Library) -> str:
    if library.listed:
        lines = [f"- `{name}`: {what}" for name, what in library.listed.items()]
        return "\n".join(["Kernels of the built-in policy; ask for one by its name:", *lines])
    return (
        f"`{library.name}`, as the built-in policy writes it; its sizes and its configuration are those of one "
        f"module, choose yours:\n\n```python\n{library.source}```"
    )


def _library_summary(library: Library) -> str:
    return library.name or f"{len(library.listed)} kernels"


@dataclass(frozen=True)
class _Words:
    """How one kind of answer is worded."""

    text: Callable[[Any, DeviceFacts], str]
    summary: Callable[[Any], str]


def _on_any_device(text: Callable[[Any], str]) -> Callable[[Any, DeviceFacts], str]:
    return lambda part, _: text(part)


_WORDS: dict[type, _Words] = {
    Checked: _Words(checked_text, checked_summary),
    Probed: _Words(_on_any_device(probed_text), probed_summary),
    ReferenceLook: _Words(_on_any_device(reference_text), reference_summary),
    Assembly: _Words(_on_any_device(assembly_text), assembly_summary),
    Swept: _Words(_on_any_device(swept_text), swept_summary),
    Benched: _Words(_on_any_device(benched_text), benched_summary),
    Library: _Words(_on_any_device(_library_text), _library_summary),
}
