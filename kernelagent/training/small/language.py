"""A finite kernel language: four words a sentence, each sentence one Triton candidate.

Small enough that every program can be judged once (72 of them), and still with the choices that
decide: a tile that is no power of two does not compile, one below the row's length or without its
mask is wrong, and a kernel for the last operation alone is right and lazy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from kernelagent.domain.candidate import Candidate

FOLDER = Path(__file__).parent / "tasks"
TASKS = ("softmax", "rms_norm")
SLOTS: tuple[tuple[str, ...], ...] = (
    ("all", "row", "last"),
    ("tile96", "tile128", "tile256"),
    ("warps2", "warps4"),
    ("masked", "bare"),
)
"""The words each place of a sentence may have: what is fused, tile, warps, and whether it is masked."""


@dataclass(frozen=True)
class Sentence:
    """One program of one task; `words` has one word of each slot, in order."""

    task: str
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"no task {self.task!r}; there are {', '.join(TASKS)}")
        fits = len(self.words) == len(SLOTS) and all(
            word in slot for word, slot in zip(self.words, SLOTS, strict=True)
        )
        if not fits:
            raise ValueError(f"{' '.join(self.words)!r} is no sentence; the words are {SLOTS}")

    def __str__(self) -> str:
        return " ".join(self.words)

    @property
    def candidate(self) -> Candidate:
        """The Triton program the sentence stands for."""
        fusion, tile, warps, mask = self.words
        masked = mask == "masked"
        return Candidate(
            _template(self.task).render(
                fusion=fusion,
                tile=tile.removeprefix("tile"),
                warps=warps.removeprefix("warps"),
                below=", mask=inside, other=0.0" if masked else "",
                within=", mask=inside" if masked else "",
                inside="inside" if masked else "j < TILE",
            )
        )

    @property
    def reply(self) -> str:
        """What a model that writes this program would answer."""
        return f"{self}\n\n```python\n{self.candidate.source}```\n"


def problem_file(task: str) -> Path:
    """The user's module of a task."""
    return FOLDER / f"{task}.py"


def sentences(task: str) -> Iterator[Sentence]:
    """All of a task, in the order of their words."""
    return (Sentence(task, words) for words in itertools.product(*SLOTS))


@cache
def _template(task: str) -> jinja2.Template:
    text = (FOLDER / f"{task}.py.j2").read_text(encoding="utf-8")
    # Programs, not pages: nothing is escaped, and a missing value is an error.
    return jinja2.Environment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
    ).from_string(text)
