"""Tables of addresses: kernels load them to find tensors; to whoever compares two they say which tensors are one."""

from __future__ import annotations

import ast

from kernelagent.tools.judge.source_reading.following.flow import Flow
from kernelagent.tools.judge.source_reading.following.names import Scope

_MAKERS = frozenset({"torch.tensor", "torch.as_tensor"})
_MOVES = frozenset({"to", "cuda", "contiguous", "view", "reshape", "unsqueeze", "squeeze"})
_OF_ITS_FORM = frozenset({"shape", "size", "numel", "device", "dtype", "stride", "dim", "ndim"})


class Addresses(Flow):
    """Where tensors that are made of addresses go: a launch may be given them."""

    def begins(self, node: ast.expr, scope: Scope) -> bool:
        if not isinstance(node, ast.Call) or not self._names.paths(node.func, scope) & _MAKERS:
            return False
        given = (n for argument in node.args for n in ast.walk(argument))
        return any(isinstance(n, ast.Attribute) and n.attr == "data_ptr" for n in given)

    def passes(self, node: ast.expr, scope: Scope) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in _MOVES:
                return self.carries(value, scope)
            case ast.Call(func=ast.Name(id=name)):
                home = scope.home(name)
                made = [] if home is None else home.bindings[name]
                return any(
                    isinstance(b, ast.Lambda) and self.carries(b.body, self._names.scopes[b])
                    for b in made
                )
        return False

    def may(self, parent: ast.AST, child: ast.expr, scope: Scope) -> bool:
        match parent:
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() | ast.Return() | ast.Expr():
                return True
            case ast.Tuple() | ast.List() | ast.Dict() | ast.Starred() | ast.Lambda():
                return True
            case ast.Subscript():
                return child is parent.value
            case ast.IfExp():
                return child is not parent.test
            case ast.For() | ast.comprehension():
                return child is parent.iter
            case ast.Attribute(attr=name):
                return name in _MOVES | _OF_ITS_FORM
            case ast.Call(func=called):
                launches = isinstance(called, ast.Subscript)
                return launches or child is called or self.reaches_own(parent, scope)
        return False
