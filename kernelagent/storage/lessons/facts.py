"""What is common to many candidates in one message, one reply, one pair of versions.

Numbers, places and own names differ from candidate to candidate; what is left can be a lesson.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelagent.domain.evaluation import Evaluation, KernelFacts
from kernelagent.prompts.hints import by_cost, read_again

_LONGEST = 160
_SAID = 280
_READ_AGAIN = 1.5
_WIDE = 128
_LESS = 0.8
"""A count that fell to this share has changed; the virtual GPU's own counts repeat exactly."""


def fact_of(message: str) -> str:
    """The rule in a rejection's message, without the candidate's names, places and sizes."""
    text = message.strip().splitlines()[0] if message.strip() else ""
    text = re.sub(r"^(the forward raised )(\w+)( at line \d+)?:", r"\2:", text)
    text = re.sub(r"^`[^`]*`( does not compile)?( at line \d+)?:\s*", "", text)
    text = re.sub(r"^line \d+:\s*", "", text)
    text = text.split("; ", 1)[0]
    text = re.sub(r"\s*[(\[]\d+(?:, \d+)*[)\]]", "", text)
    text = re.sub(r"`\w+`", "`…`", text)
    text = re.sub(r"\b\d{2,}\b|\b\d+\.\d+\b", "N", text).rstrip(" ;:.,")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def key_of(fact: str) -> str:
    """Equal for two spellings of one fact."""
    return re.sub(r"\d+", "#", fact.lower())


def stated_in(reply: str) -> str:
    """The writer's own first sentences, without code."""
    prose = reply.partition("```")[0]
    words = " ".join(prose.split())
    result = ""
    for sentence in re.split(r"(?<=[.;!?])\s", words):
        if result and len(result) + len(sentence) >= _SAID:
            break
        result = f"{result} {sentence}".strip()
    return result if len(result) <= _SAID else f"{result[: _SAID - 1]}…"


def bound_of(evaluation: Evaluation) -> str:
    """What limits a version most; empty where it is unknown."""
    if evaluation.estimate is not None:
        bound = evaluation.estimate.bound
        # As older lessons have it, which name neither caches nor units.
        return bound if bound in ("dot", "fp", "launch") else "dram"
    heaviest = by_cost(evaluation)[:1]
    return (heaviest[0].bound or "") if heaviest else ""


def built(evaluation: Evaluation) -> str:
    """How a version is built, in the terms that repeat from one problem to another."""
    kernels = by_cost(evaluation)
    if not kernels:
        return ""
    launches = sum(kernel.launches for kernel in kernels)
    parts = [_count(len(kernels), "kernel"), _count(launches, "launch", "launches")]
    if kernels[0].num_warps is not None:
        parts.append(f"num_warps={kernels[0].num_warps}")
    if any(kernel.tensor_core for kernel in kernels):
        parts.append("tensor cores")
    if all((read_again(kernel) or 1.0) < _READ_AGAIN for kernel in kernels):
        parts.append("inputs read once")
    return ", ".join(parts)


def optimization_changes(before: Evaluation, after: Evaluation) -> Iterator[str]:
    """What changed in how the work is done; empty when no counted fact did."""
    old, new = by_cost(before), by_cost(after)
    if not old or not new:
        return
    if _launches(new) < _launches(old):
        yield "fewer launches"
    elif _launches(new) > _launches(old):
        yield "more launches"
    if _passes(old) >= _READ_AGAIN and _passes(new) <= _LESS * _passes(old):
        yield "reading inputs fewer times"
    if not any(k.tensor_core for k in old) and any(k.tensor_core for k in new):
        yield "tensor cores for the products"
    if _spills(old) and not _spills(new):
        yield "no spilled registers"
    if 0 < _widest(old) < _widest(new):
        yield "wider loads"
    yield from _changed("num_warps", old[0].num_warps, new[0].num_warps)
    yield from _changed("num_stages", old[0].num_stages, new[0].num_stages)
    yield from _changed("programs", _programs(old[0]), _programs(new[0]), 2)


def closed(version: Evaluation) -> frozenset[str]:
    """The changes that can no longer improve this version."""
    kernels = by_cost(version)
    if not kernels:
        return frozenset()
    done = {
        "fewer launches": _launches(kernels) <= 1,
        "reading inputs fewer times": _passes(kernels) < _READ_AGAIN,
        "tensor cores for the products": any(kernel.tensor_core for kernel in kernels),
        "no spilled registers": not _spills(kernels),
        "wider loads": _widest(kernels) >= _WIDE,
    }
    return frozenset(move for move, is_done in done.items() if is_done)


def _changed(name: str, old: int | None, new: int | None, times: int = 1) -> Iterator[str]:
    if not old or not new or max(old, new) < times * min(old, new) or old == new:
        return
    yield f"{'more' if new > old else 'fewer'} {name}"


def _launches(kernels: list[KernelFacts]) -> int:
    return sum(kernel.launches for kernel in kernels)


def _passes(kernels: list[KernelFacts]) -> float:
    return max((read_again(kernel) or 1.0) for kernel in kernels)


def _spills(kernels: list[KernelFacts]) -> int:
    return sum(kernel.spills or 0 for kernel in kernels)


def _widest(kernels: list[KernelFacts]) -> int:
    return max((int(bits) for bits in kernels[0].load_widths), default=0)


def _programs(kernel: KernelFacts) -> int | None:
    return kernel.grid[0] * kernel.grid[1] * kernel.grid[2] if kernel.grid else None


def _count(number: int, item: str, many: str | None = None) -> str:
    return f"{number} {item if number == 1 else many or item + 's'}"
