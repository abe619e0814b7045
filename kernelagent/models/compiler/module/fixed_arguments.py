"""Constructor's arguments that are numbers in the program: `ModelNew` refuses others.

The kernels were worked out for one value of each, or for two where the problem is executed at smaller sizes.
Those that decide the state's sizes may be any; one that was always the same number as such an argument must
be it; the rest must be what it was.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernelagent.models.compiler.module.constructor import Shapes, is_plain, written
from kernelagent.models.compiler.module.constructor_sizes import Arguments


@dataclass(frozen=True)
class Fixed:
    """An argument, or a part of one, and what it must be, both as Python text."""

    argument: str
    value: str

    @property
    def name(self) -> str:
        """The argument without its conversion to a tuple, which makes lists comparable."""
        return re.sub(r"^tuple\((\w+)\)$", r"\1", self.argument)


@dataclass(frozen=True)
class _Leaf:
    text: str
    full: Any
    small: Any


def fixed_arguments(kind: type, given: Arguments, less: Arguments, state: Shapes) -> list[Fixed]:
    """`given`: of the problem; `less`: of what is executed; `state`: sizes that follow from them."""
    leaves = list(_leaves(kind, given, less))
    formulas = "\n".join(text for shape in state.values() for text in shape)
    free = [leaf for leaf in leaves if _reads(formulas, leaf.text)]
    fixed = []
    for leaf in leaves:
        if leaf in free:
            continue
        if leaf.full == leaf.small:
            fixed.append(Fixed(leaf.text, written(leaf.full)))
            continue
        # Of a size that no tensor of the state has, nothing is known but that it may vary.
        same = [item.text for item in free if (item.full, item.small) == (leaf.full, leaf.small)]
        fixed += [Fixed(leaf.text, same[0])] if same else []
    return fixed


def refusal_lines(fixed: list[Fixed]) -> list[str]:
    """Statements of the constructor that raise for other arguments."""
    if not fixed:
        return []
    tests = [f"{f.argument} != {f.value}" for f in fixed]
    condition = [f"if {' or '.join(tests)}:"]
    if len(condition[0]) > _WIDTH:
        condition = ["if (", f"    {tests[0]}", *(f"    or {test}" for test in tests[1:]), "):"]
    words = ", ".join(f"{f.name}={f.value}" for f in fixed)
    parts = textwrap.wrap(f"made for {words}", _WIDTH)
    # Texts that follow one another are one, with what separated them.
    texts = [*(json.dumps(f"{part} ") for part in parts[:-1]), json.dumps(parts[-1])]
    raised = [f"    raise ValueError({texts[0]})"]
    if len(texts) > 1:
        raised = ["    raise ValueError(", *(f"        {text}" for text in texts), "    )"]
    return [*condition, *raised]


_WIDTH = 70


def _reads(formulas: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", formulas) is not None


def _leaves(kind: type, given: Arguments, less: Arguments) -> Iterator[_Leaf]:
    constructor = inspect.signature(kind.__init__)  # type: ignore[misc]
    full, small = (constructor.bind(None, *args, **kwargs) for args, kwargs in (given, less))
    full.apply_defaults()
    small.apply_defaults()
    for name in list(full.arguments)[1:]:
        yield from _parts(name, full.arguments[name], small.arguments[name])


def _parts(text: str, full: Any, small: Any) -> Iterator[_Leaf]:
    if isinstance(full, list | tuple):
        nested = any(isinstance(part, list | tuple) for part in full)
        if not nested and is_plain(full) and full == small:
            if full:
                yield _Leaf(f"tuple({text})", tuple(full), tuple(small))
            return
        if nested:
            yield _Leaf(f"len({text})", len(full), len(small))
        for at, pair in enumerate(zip(full, small, strict=True)):
            yield from _parts(f"{text}[{at}]", *pair)
    elif is_plain(full):
        yield _Leaf(text, full, small)
