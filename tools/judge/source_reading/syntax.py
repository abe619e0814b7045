"""Whether a candidate's text is Python at all."""

from __future__ import annotations

import ast

from kernelagent.domain.evaluation import Reason


def syntax_fault(source: str) -> Reason | None:
    """Why the text is no Python; None: it is."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        text = (getattr(error, "text", None) or "").rstrip()
        place = f"line {line}: " if line else ""
        message = getattr(error, "msg", str(error))
        return Reason("syntax_error", f"{place}{message}", {"line": line, "text": text})
    return None
