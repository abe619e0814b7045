"""Recognises the drop-in of a file as `emit_module` writes it: byte for byte, or not at all."""

from __future__ import annotations

import ast
from typing import Any

from kernelagent.domain import certificate as certificates
from kernelagent.domain.errors import UsageError
from kernelagent.domain.replies.parsing import parse
from kernelagent.dropin.emit import PARTS_APART, SECTION_BEGINS, data_text, drop_in_around

_ENVELOPE = "ENVELOPE_VERIFIED"


def without_drop_in(text: str) -> str | None:
    """The text without the code of its drop-in; what is left keeps its lines' numbers.

    Everything that a candidate might have written is left in: its own part, how it is constructed, and the data. None
    if the file has no drop-in of this version, or one that was changed.
    """
    own, begins, rest = text.partition(SECTION_BEGINS)
    if not begins or SECTION_BEGINS in rest:
        return None
    try:
        tree, file = parse(own), parse(text)
        envelope, certified = (_literal(file, name) for name in (_ENVELOPE, certificates.NAME))
    except (SyntaxError, ValueError):
        return None
    data = [data_text(_ENVELOPE, envelope), data_text(certificates.NAME, certified)]
    for runtime in ("inline", "package"):
        try:
            section, imports, guard = drop_in_around(tree, envelope, runtime)
        except (UsageError, LookupError, TypeError, AttributeError):
            # Names or an envelope that `emit_module` never writes.
            return None
        head = PARTS_APART.join([section, *data, ""])
        tail = f"{PARTS_APART}{guard}\n"
        if (begins + rest).startswith(head) and rest.endswith(tail):
            unread = section.replace(imports, "\n" * imports.count("\n"), 1)
            constructor = (begins + rest)[len(head) : -len(tail)]
            return own + PARTS_APART.join([unread, *data, constructor]) + "\n"
    return None


def _literal(file: ast.Module, name: str) -> dict[str, Any]:
    """The value of a name that is assigned once; raises ValueError where it is no dictionary of literals."""
    values = [
        node.value
        for node in file.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == name
    ]
    if len(values) != 1 or values[0] is None:
        raise ValueError(f"{name} is not assigned once")
    value = ast.literal_eval(values[0])
    if isinstance(value, dict):
        return value
    raise ValueError(f"{name} is no dictionary")
