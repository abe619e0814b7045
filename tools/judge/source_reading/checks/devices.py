"""The device of a tensor: it may be handed on to where something is made or moved; any other use asks where it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelagent.tools.judge.source_reading.following.flow import Flow
from kernelagent.tools.judge.source_reading.following.names import (
    Imported,
    Names,
    Scope,
    Value,
    parameters,
    written_out,
)

ASKING: frozenset[str] = frozenset({"device", "is_cuda", "is_cpu"})
"""Attributes of tensors whose value is followed."""
_OF_A_DEVICE = frozenset({"type", "index"})
_TAKE_ONE = frozenset({"to", "cuda", "__init__"})
"""Methods that are given a device in any place."""
_ACTIVE = "triton.runtime.driver.active.get_active_torch_device"


class Devices(Flow):
    """Where the device of a tensor, its number, or whether it is a GPU at all goes."""

    def __init__(self, names: Names, tree: ast.Module) -> None:
        self._made = {*_made_here(tree)}
        super().__init__(names, tree)

    def begins(self, node: ast.expr, scope: Scope) -> bool:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()) if name in ASKING:
                is_a_gpu = name != "device" and self._is_given(node.value, scope)
                return not is_a_gpu and self._is_of_a_value(node.value, scope)
            case ast.Call():
                if (written_out(node) or "") in ASKING:
                    return self._is_of_a_value(node.args[0], scope)
                return _ACTIVE in self._names.paths(node.func, scope)
        return False

    def _is_of_a_value(self, node: ast.expr, scope: Scope) -> bool:
        return any(not isinstance(m, Imported) for m in self._names.meanings(node, scope))

    def _is_given(self, node: ast.expr, scope: Scope) -> bool:
        """Whether it is an argument of the forward that is judged: that it is on a GPU is known of it, not on which."""
        if not isinstance(node, ast.Name) or (home := scope.home(node.id)) is None:
            return False
        outer = home.parent
        if outer is None or not isinstance(home.node, ast.FunctionDef):
            return False
        of_module = isinstance(outer.node, ast.ClassDef) and outer.node.name not in self._made
        if not of_module or home.node.name != "forward" or "forward" in self._made:
            return False
        given = [a.arg for a in parameters(home.node.args)][1:]
        return node.id in given and all(isinstance(b, Value) for b in home.bindings[node.id])

    def passes(self, node: ast.expr, scope: Scope) -> bool:
        match node:
            case ast.Attribute(attr=name):
                match node:
                    case ast.Attribute(attr="type", value=ast.Attribute(value=tensor)):
                        if self._is_given(tensor, scope):
                            return False
                return name in _OF_A_DEVICE and self.carries(node.value, scope)
            case ast.Call():
                if (written_out(node) or "") in _OF_A_DEVICE:
                    return self.carries(node.args[0], scope)
                made = self._is_dict(node.func, scope) or (
                    "torch.device" in self._names.paths(node.func, scope)
                )
                given = (*node.args, *(k.value for k in node.keywords))
                return made and any(self.carries(part, scope) for part in given)
        return False

    def may(self, parent: ast.AST, child: ast.expr, scope: Scope) -> bool:
        match parent:
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() | ast.Return() | ast.Expr():
                return True
            case ast.Tuple() | ast.List() | ast.Starred() | ast.Await() | ast.Yield():
                return True
            case ast.ListComp() | ast.GeneratorExp() | ast.withitem() | ast.arguments():
                return True
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                return child is parent.iter
            case ast.Dict():
                return any(child is value for value in parent.values)
            case ast.DictComp() | ast.Subscript():
                return child is parent.value
            case ast.IfExp():
                return child is not parent.test
            case ast.BoolOp():
                return child is parent.values[-1]
            case ast.Attribute():
                return parent.attr in _OF_A_DEVICE
            case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                return True
            case ast.Call():
                return self._may_be_given(parent, child, scope)
        return False

    def _may_be_given(self, call: ast.Call, child: ast.expr, scope: Scope) -> bool:
        called = call.func
        name = written_out(call)
        if name is not None:
            return child is call.args[0] and name in _OF_A_DEVICE
        if child is called or self.reaches_own(call, scope):
            return True
        keyword = next((k for k in call.keywords if k.value is child), None)
        paths = self._names.paths(called, scope)
        if paths:
            torch = all(path.startswith("torch.") for path in paths)
            if keyword is not None:
                return torch and keyword.arg in ("device", None)
            return torch and all(
                path == "torch.device" or path.startswith("torch.cuda.") for path in paths
            )
        if isinstance(called, ast.Name):
            asks_its_kind = called.id == "isinstance" and scope.home("isinstance") is None
            return asks_its_kind or self._is_dict(called, scope)
        if not isinstance(called, ast.Attribute):
            return False
        by_name = keyword is not None and keyword.arg in ("device", None)
        return called.attr in _TAKE_ONE or (called.attr.startswith("new_") and by_name)

    def _is_dict(self, node: ast.expr, scope: Scope) -> bool:
        return isinstance(node, ast.Name) and node.id == "dict" and scope.home("dict") is None


def _made_here(node: ast.AST) -> Iterator[str]:
    """Names that the text uses, also as attributes: a module that it makes is given what the text pleases."""
    match node:
        case ast.Call(func=ast.Name(id="super")):
            return
        case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
            yield name
    for child in ast.iter_child_nodes(node):
        yield from _made_here(child)
