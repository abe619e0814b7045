"""Long lines of generated code broken where a person would break them."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 88
"""Leaves room for two levels of indentation under 100 columns."""
_OPEN, _CLOSE = "([{", ")]}"
_SHORT = 30
_FEW = 4


def folded(code: str) -> str:
    """Each line of `code` that is too long, opened at its widest brackets."""
    return "\n".join(_opened(line) for line in code.splitlines())


def _opened(line: str) -> str:
    if len(line) <= WIDTH:
        return line
    brackets = _widest(line)
    if brackets is None:
        return line
    start, stop = brackets
    indent = " " * (len(line) - len(line.lstrip()))
    parts = [part.strip() for part in _split(line[start + 1 : stop])]
    if len(parts) > _FEW and all(len(part) <= _SHORT for part in parts):
        inner = "\n".join(f"{indent}    {row}" for row in _rows(parts, len(indent)))
    else:
        inner = "\n".join(_opened(f"{indent}    {part},") for part in parts)
    return f"{_opened(line[: start + 1])}\n{inner}\n{indent}{line[stop:]}"


def _rows(parts: Sequence[str], indent: int) -> list[str]:
    """Many short arguments, as many to a line as fit."""
    rows = [""]
    for part in parts:
        longer = f"{rows[-1]} {part},".strip()
        if len(longer) > WIDTH - 4 - indent and rows[-1]:
            rows.append(f"{part},")
        else:
            rows[-1] = longer
    return rows


def _widest(line: str) -> tuple[int, int] | None:
    """The widest call or list."""
    result: list[tuple[int, int]] = []
    stack: list[int] = []
    for at, letter in enumerate(line):
        if letter in _OPEN:
            stack.append(at)
        elif letter in _CLOSE and stack:
            start = stack.pop()
            if at - start > _SHORT and _takes_commas(line, start):
                result.append((start, at))
    return max(result, key=lambda pair: pair[1] - pair[0], default=None)


def _takes_commas(line: str, start: int) -> bool:
    """A call or a list; not a grouping or an index, which a comma would change."""
    follows_value = start > 0 and (line[start - 1].isalnum() or line[start - 1] in "_])")
    return follows_value if line[start] == "(" else line[start] == "[" and not follows_value


def _split(text: str) -> list[str]:
    """At the commas of this level."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text[start:].strip() else parts
