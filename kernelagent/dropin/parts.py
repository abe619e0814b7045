"""The text of the drop-in, from the file that holds it as code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path
from typing import Any

from kernelagent.domain.candidate import ENTRY_POINT
from kernelagent.domain.replies.parsing import parse

TEMPLATE = Path(__file__).parent / "template" / "dropin.py"
BLOCKS = frozenset(
    {
        "draws",
        "live",
        "attributes",
        "mode",
        "literal",
        "names",
        "nest",
        "rules",
        "laid_out",
        "values",
    }
    | {"binds", "tied", "precision", "settings", "reads", "inner"}
)
"""The template's optional blocks: lines between `# if NAME:` and `# end` are emitted only where the file
needs NAME. Lines after `# else:`, comments in the template, are emitted uncommented where it does not."""
_DRAW_NOTHING = frozenset(
    {"super", "super().__init__", "cls", "nn.Module", "nn.Parameter", "torch.nn.Module"}
    | {"torch.nn.Parameter", "torch.empty", "nn.ModuleList", "torch.nn.ModuleList"}
)
"""Calls in a constructor that neither fill a parameter nor draw a random number."""


@cache
def dropin_text(blocks: frozenset[str] = BLOCKS) -> str:
    """The drop-in with the imports it needs beside torch's and `Any`, without the blocks not named."""
    source = TEMPLATE.read_text(encoding="utf-8")
    tree = parse(source)
    imports = [ast.unparse(n) for n in tree.body if isinstance(n, ast.Import) and n.names[0].asname]
    first = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    lines = _chosen(source.splitlines()[first.lineno - 1 :], blocks)
    # What a linter of ours is told is nothing to the file's reader.
    text = "\n".join(line.split("  # noqa")[0] for line in lines)
    return "\n".join(imports) + "\n\n\n" + text


def blocks_for(envelope: dict[str, Any], candidate: ast.Module) -> frozenset[str]:
    """The blocks that an emitted file with this envelope and this candidate needs."""
    leaves = list(_leaves(envelope["input_sets"]))
    asked = {
        "draws": not _only_allocates(candidate),
        "live": envelope["constructor"] == "from_reference",
        "attributes": bool(envelope.get("attributes")),
        "reads": bool(envelope.get("reads")),
        # Functions without names of their own are told by what they do.
        "inner": any(f in str([*_read(envelope)]) for f in ("<lambda>", "<locals>")),
        "binds": bool(envelope.get("binds") or envelope.get("leaves")),
        "tied": bool(envelope.get("tied")),
        "settings": bool(envelope.get("settings")),
        "precision": bool({"float32_matmul_precision", "float32_convolutions"} & envelope.keys()),
        "mode": not envelope.get("mode_independent"),
        "literal": any("literal" in leaf for leaf in leaves),
        "names": any(item.get("kwargs") for item in envelope["input_sets"]),
        "nest": any(kind in leaf for leaf in leaves for kind in ("list", "tuple", "dict")),
        "values": any("values" in leaf for leaf in leaves),
        "laid_out": any("sizes" in leaf for leaf in leaves),
        "rules": any(not isinstance(n, int) for leaf in leaves for n in leaf.get("shape", ())),
    }
    return frozenset(name for name, needed in asked.items() if needed)


def _read(envelope: dict[str, Any]) -> Iterator[str]:
    """The texts of what the reference reads."""
    for texts in (*envelope.get("attributes", {}).values(), envelope.get("reads", {})):
        yield from texts.values()


def _only_allocates(candidate: ast.Module) -> bool:
    """Whether it can be seen that constructing `ModelNew` draws nothing and fills nothing."""
    classes = [n for n in candidate.body if isinstance(n, ast.ClassDef) and n.name == ENTRY_POINT]
    if len(classes) != 1 or classes[0].decorator_list or classes[0].keywords:
        return False
    if not {ast.unparse(base) for base in classes[0].bases} <= {"nn.Module", "torch.nn.Module"}:
        return False
    calls = [
        ast.unparse(node.func)
        for method in classes[0].body
        if isinstance(method, ast.FunctionDef) and method.name in ("__init__", "from_reference")
        for node in ast.walk(method)
        if isinstance(node, ast.Call)
    ]
    return _DRAW_NOTHING.issuperset(calls)


def _chosen(lines: list[str], blocks: Set[str]) -> list[str]:
    """The lines outside blocks, of the blocks asked for, and the others' after `# else:`."""
    result, keep, instead = [], True, False
    for line in lines:
        match line.split():
            case ["#", "if", name]:
                keep = name.rstrip(":") in blocks
            case ["#", "else:"]:
                keep, instead = not keep, not keep
            case ["#", "end"]:
                keep, instead = True, False
            case _ if keep:
                result.append(line.replace("# ", "", 1) if instead else line)
    return result


def _leaves(facts: Any) -> Iterator[dict[str, Any]]:
    """Every value's facts, those of nests and of what is inside them too."""
    if isinstance(facts, dict):
        yield facts
    for inner in facts.values() if isinstance(facts, dict) else facts:
        if isinstance(inner, dict | list):
            yield from _leaves(inner)
