"""Of what a class of the text is made: a module, a function of autograd, a tensor, or plain."""

from __future__ import annotations

import ast

from kernelagent.tools.judge.source_reading.following.names import Imported, Names, Own


def is_module(name: str, names: Names) -> bool:
    node = names.classes.get(name)
    return node is not None and kind_of(node, names) == "module"


def kind_of(node: ast.AST, names: Names, left: int = 8) -> str:
    """`module`, `function` (of autograd), `tensor` or `plain`; of what a class is made."""
    if not isinstance(node, ast.ClassDef) or not left:
        return "plain"
    scope = names.scopes[node].parent
    for base in node.bases:
        for meaning in names.meanings(base, scope) if scope is not None else ():
            path = meaning.path if isinstance(meaning, Imported) else ""
            if path.endswith("autograd.Function") or path == "torch.autograd.function.Function":
                return "function"
            if path.startswith("torch.nn."):
                return "module"
            if path.startswith("torch"):
                return "tensor"
            if isinstance(meaning, Own) and meaning.name in names.classes:
                inner = kind_of(names.classes[meaning.name], names, left - 1)
                if inner != "plain":
                    return inner
    return "plain"
