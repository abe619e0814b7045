"""Methods besides `forward` that a candidate writes anew: only `forward` is compared."""

from __future__ import annotations

import ast

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.domain.replies.parsing import parse

_SHOWN = 4


def other_methods(reference: torch.nn.Module, source: str) -> Disclosure | None:
    """Tells of the public methods of the reference's class that `ModelNew` defines as well; `source` parses."""
    own = {
        name
        for kind in type(reference).__mro__
        for name, value in vars(kind).items()
        if (callable(value) or isinstance(value, property))
        and not name.startswith("_")
        and not hasattr(torch.nn.Module, name)
    }
    written = [
        part.name
        for node in parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "ModelNew"
        for part in node.body
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name in own
    ]
    if not written:
        return None
    rest = f" and {len(written) - _SHOWN} more" if len(written) > _SHOWN else ""
    return Disclosure(
        "other_methods",
        f"ModelNew has its own {', '.join(written[:_SHOWN])}{rest}, as your module has: only the forward is verified. The emitted "
        f"module keeps your module's methods; whoever constructs ModelNew itself gets the candidate's",
    )
