"""Whether a kernel that may begin before the one before it has ended (`launch_pdl`) waits for it first.

Where every program waits before it touches memory, launches leave what they leave one after another, which is how
the virtual device runs them; and who waits for such a kernel has waited for all those before it.
"""

from __future__ import annotations

import re

_WAIT = "tt.grid_dependency_wait"
_ENTRY = re.compile(r"^\s*tt\.func public .*\{\s*(?:loc\(.*\))?$", re.MULTILINE)
_OPERATION = re.compile(r"^\s*(?:%[\w:, %]+ = )?\"?([a-z_]+(?:\.[a-z_]+)+)")
_BEFORE = re.compile(
    r"(arith|math)\.\w+$|tt\.(get_program_id|get_num_programs|make_range|splat|expand_dims|broadcast|addptr|bitcast|reshape|"
    r"trans|int_to_ptr|ptr_to_int|grid_dependency_launch_dependents)$|llvm\.intr\.assume$"
)
"""Operations that touch no memory, and after which every program goes on with the next line."""
_TOUCHES = re.compile(
    r"\b(ld\.global|st\.global|ld\.acquire|st\.release|atom|red\.|cp\.|call\b|prefetch)"
)


def waits_first(ttir: str, ptx: str) -> bool:
    """Of every program, whichever way it goes: in Triton's IR, and where the wait stands in the machine's text."""
    return _in_ir(ttir) and _in_ptx(ptx)


def _in_ir(text: str) -> bool:
    entry = _ENTRY.search(text)
    if entry is None:
        return False
    for line in text[entry.end() :].splitlines():
        if not line.strip():
            continue
        found = _OPERATION.match(line)
        if found is None:
            return False
        if found[1] == _WAIT:
            return True
        if not _BEFORE.match(found[1]):
            return False
    return False


def _in_ptx(text: str) -> bool:
    waits, touches = text.find("griddepcontrol.wait"), _TOUCHES.search(text)
    return waits >= 0 and (touches is None or waits < touches.start())
