"""A report as data: sections of blocks, which `markdown` and `html` write out each in its own way.

Words are plain text everywhere: only a writer knows what has to be escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Mono:
    """Text of a program: a name, a call, a path."""

    text: str


@dataclass(frozen=True)
class Strong:
    text: str


Words: TypeAlias = "str | Mono | Strong | tuple[str | Mono | Strong, ...]"


def pieces(words: Words) -> tuple[str | Mono | Strong, ...]:
    """The words as a tuple, whichever way they were given."""
    return words if isinstance(words, tuple) else (words,)


@dataclass(frozen=True)
class Paragraph:
    words: Words


@dataclass(frozen=True)
class Bullets:
    items: tuple[Words, ...]


@dataclass(frozen=True)
class Table:
    heads: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    right: frozenset[int] = frozenset()
    """Columns of numbers, set flush right."""


@dataclass(frozen=True)
class Code:
    """A listing; `language` is `python`, `console` or empty."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Chart:
    """A drawing twice: as SVG, and as Unicode lines for a pager."""

    svg: str
    text: str


@dataclass(frozen=True)
class Figure:
    """A number that a reader should see first, with what it is and how sure it is."""

    number: str
    label: str
    """What the number is: its baseline, or the word estimate."""
    doubt: str
    """The interval, or why there is none."""


@dataclass(frozen=True)
class Figures:
    """The numbers of the headline, side by side."""

    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Folded:
    """Blocks a reader opens when they want them."""

    summary: Words
    blocks: tuple[Block, ...]


Block: TypeAlias = Paragraph | Bullets | Table | Code | Chart | Figures | Folded


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    lead: Words
    """The outcome in one sentence."""
    blocks: tuple[Block, ...]
    """What stands above the first section."""
    sections: tuple[Section, ...]


def present(*blocks: Block | None) -> tuple[Block, ...]:
    """The blocks there are."""
    return tuple(block for block in blocks if block is not None)


def listed(items: Sequence[Words]) -> Bullets | None:
    """A list, unless it would be empty."""
    return Bullets(tuple(items)) if items else None
