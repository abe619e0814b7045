"""Long lines of generated code broken where a person would break them."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 88
"""Leaves room for two levels of indentation under 100 columns."""
_OPEN, _CLOSE = "([{", ")]}"
_SHORT = 24


def wrapped(beginning: str, arguments: Sequence[str], end: str = "") -> list[str]:
    """A call or signature on one line where it fits, else its arguments one level in."""
    flat = f"{beginning}({', '.join(arguments)}){end}"
    if len(flat) <= WIDTH:
        return [flat]
    lines = [""]
    for argument in arguments:
        longer = f"{lines[-1]} {argument},".strip()
        if len(longer) > WIDTH - 4 and lines[-1]:
            lines.append(f"{argument},")
        else:
            lines[-1] = longer
    return [f"{beginning}(", *(f"    {line}" for line in lines), f"){end}"]


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
    parts = _split(line[start + 1 : stop])
    inner = "\n".join(_opened(f"{indent}    {part.strip()},") for part in parts)
    return f"{line[: start + 1]}\n{inner}\n{indent}{line[stop:]}"


def _widest(line: str) -> tuple[int, int] | None:
    """The outermost call or list with several parts; not a mere grouping, which a comma would change."""
    found: list[tuple[int, int]] = []
    stack: list[int] = []
    for at, letter in enumerate(line):
        if letter in _OPEN:
            stack.append(at)
        elif letter in _CLOSE and stack:
            start = stack.pop()
            called = start > 0 and (line[start - 1].isalnum() or line[start - 1] in "_]")
            if called and line[start] == "(" and at - start > _SHORT:
                found.append((start, at))
    return max(found, key=lambda pair: pair[1] - pair[0], default=None)


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
