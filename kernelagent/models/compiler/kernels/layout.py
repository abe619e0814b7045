"""Long lines of generated code broken where a person would break them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

WIDTH = 88
"""Leaves room for two levels of indentation under 100 columns."""
_OPEN, _CLOSE = "([{", ")]}"
_LONGEST = 100
"""What is longer is read with difficulty, however it is broken."""
_TEXT = re.compile(r"""("|')(?:\\.|(?!\1).)*\1""")
_GROUP = re.compile(r"([-+*/] )?\((.*)\)(,?)")
_SHORT = 30
_FEW = 4


def folded(code: str) -> str:
    """Each line of `code` that is too long, opened at its widest brackets."""
    return "\n".join(_opened(line) for line in code.splitlines())


def _opened(line: str) -> str:
    if len(line) <= WIDTH or line.lstrip().startswith("#"):
        return line
    if (listed := _by_parts(line)) is not None:
        return listed
    brackets = _widest(line)
    opened = line if brackets is None else _at(line, brackets)
    if max(map(len, opened.splitlines())) > _LONGEST:
        return _by_terms(line) or opened
    return opened


def _by_parts(line: str) -> str | None:
    """Several values that are returned or unpacked, in brackets; None for any other line."""
    indent = " " * (len(line) - len(line.lstrip()))
    target, equals, value = line.strip().partition(" = ")
    before, parts, after = "", _split(target), f" = {value}"
    if line.startswith(f"{indent}return "):
        before, parts, after = "return ", _split(line.strip().removeprefix("return ")), ""
    elif not equals:
        return None
    if len(parts) < 2:
        return None
    inner = "\n".join(
        f"{indent}    {row}" for row in _rows([p.strip() for p in parts], len(indent))
    )
    return f"{indent}{before}(\n{inner}\n{indent}){after}"


def _by_terms(line: str) -> str | None:
    """A long sum or product that is assigned, or an argument, a term to a line; None for any other line."""
    target, equals, value = line.partition(" = ")
    indent = " " * (len(line) - len(line.lstrip()))
    if not equals and line.endswith(","):
        # Within the brackets of a call, which are open already.
        terms = [line.strip()]
        for operators in ("+-", "*/"):
            longest = _LONGEST - len(indent)
            terms = [
                part
                for term in terms
                for part in (_cut(term, operators) if len(term) > longest else [term])
            ]
        if not terms[1:]:
            return None
        lines = [line for term in terms for line in _group_opened(term, longest)]
        return f"\n{indent}    ".join([indent + lines[0], *lines[1:]])
    terms = _cut(value, "+-")
    terms = terms if terms[1:] else _cut(value, "*/")
    if not (target.strip().isidentifier() and equals and terms[1:]):
        return None
    inner = "\n".join(_opened(f"{indent}    {term}") for term in terms)
    return f"{target} = (\n{inner}\n{indent})"


def _group_opened(term: str, longest: int) -> list[str]:
    """A bracketed sum that is too long for a line, a term of it to a line; any other term as it is."""
    found = _GROUP.fullmatch(term)
    inner = _cut(found[2], "+-") if found and len(term) > longest else []
    if found is None or not inner[1:] or _closes_early(found[2]):
        return [term]
    return [f"{found[1] or ''}(", *(f"    {part}" for part in inner), f"){found[3]}"]


def _closes_early(text: str) -> bool:
    """Whether a bracket that was opened before the text is closed in it."""
    depth = 0
    for letter in _without_texts(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if depth < 0:
            return True
    return False


def _cut(text: str, operators: str) -> list[str]:
    """The terms, each but the first with its operator before it."""
    cuts = _between_terms(text, operators)
    return [text[a:b].strip() for a, b in pairwise([0, *cuts, len(text)])]


def _between_terms(text: str, operators: str) -> list[int]:
    """Where one of these operators stands between two terms, outside all brackets."""
    depth, outcome = 0, []
    code = _without_texts(text)
    for at, letter in enumerate(code):
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        elif depth == 0 and code[at : at + 3] in {f" {operator} " for operator in operators}:
            outcome.append(at)
    return outcome


def _at(line: str, brackets: tuple[int, int]) -> str:
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
    for at, letter in enumerate(_without_texts(line)):
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


def _without_texts(code: str) -> str:
    """The same with other letters in its string literals: their brackets, commas and signs are no code."""
    return _TEXT.sub(lambda match: "_" * len(match[0]), code)


def _split(text: str) -> list[str]:
    """At the commas of this level."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(_without_texts(text)):
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text[start:].strip() else parts
