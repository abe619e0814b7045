"""The methods that keep what a module's weights alone decide, and notice when it is to be made anew."""

from __future__ import annotations

from collections.abc import Sequence

from kernelagent.models.compiler.capturing.capture import Captured
from kernelagent.models.compiler.module.constructor import tuple_of
from kernelagent.models.compiler.module.host import local, place

FIELD = "self._kept = {}"
"""The constructor's line."""


def kept_lines(captured: Captured, part: str) -> list[str]:
    """What a forward has of it; `part`: the input set, where there are several."""
    names = [local(value.name) for value in captured.values if value.kind == "kept"]
    return [f"{tuple_of(names)} = self.{_method(part)}()"]


def kept_method(program: Captured, body: Sequence[str], part: str) -> str:
    """The method, with the one that computes it; `body`: the lines of that, which return it."""
    weights = tuple_of([place(v) for v in program.values if v.kind != "constant"])
    key = f'"{part}"' if part else '"all"'
    lines = [
        f"def {_method(part)}(self):",
        '    """What the weights alone decide; made anew where one was replaced, or written to as torch counts it.',
        "",
        "    Not seen: what is written through `.data` or numpy, or by a fused optimizer. Captured in a CUDA graph it stays as it was.",
        '    """',
        f"    weights = {weights}",
        "    now = [(w.data_ptr(), None if w.is_inference() else w._version) for w in weights]",
        f"    before, seen, made = self._kept.get({key}, ((), [], ()))",
        "    same = len(before) == len(weights) and all(a is b for a, b in zip(before, weights))",
        "    if not same or seen != now or any(version is None for _, version in now):",
        f"        made = self.{_from_weights(part)}()",
        f"        self._kept[{key}] = weights, now, made",
        "    return made",
        "",
        f"def {_from_weights(part)}(self):",
        *(f"    {line}" for line in body),
    ]
    return "\n".join(lines)


def _method(part: str) -> str:
    return f"_kept_{part}" if part else "_kept_of_weights"


def _from_weights(part: str) -> str:
    return f"_from_weights_{part}" if part else "_from_weights"
