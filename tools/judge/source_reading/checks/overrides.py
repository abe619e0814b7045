"""What torch and its users call of a class by name, and whether a definition takes the place of it."""

from __future__ import annotations

import ast

from kernelagent.tools.judge.source_reading.allowed import DUNDERS
from kernelagent.tools.judge.source_reading.following.given_by_torch import OF_A_FUNCTION

MODULE_METHODS = frozenset(
    """
    T_destination _apply _call_impl _compiled_call_impl _get_backward_hooks _get_backward_pre_hooks _get_name _load_from_state_dict
    _maybe_warn_non_full_backward_hook _named_members _register_load_state_dict_pre_hook _register_state_dict_hook
    _replicate_for_data_parallel _save_to_state_dict _slow_forward _version _wrapped_call_impl add_module apply bfloat16 buffers
    call_super_init children compile cpu cuda double dump_patches eval extra_repr float get_buffer get_extra_state get_parameter
    get_submodule half ipu load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters
    register_backward_hook register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module
    register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule
    share_memory state_dict to to_empty train type xpu zero_grad
    _parameters _buffers _modules _non_persistent_buffers_set _backward_hooks _forward_hooks _forward_pre_hooks
    _state_dict_hooks _state_dict_pre_hooks _load_state_dict_pre_hooks _load_state_dict_post_hooks _is_full_backward_hook
    """.split()
)
"""What torch and its users call of a module, besides its constructor and its forward."""


def is_override(name: str, kind: str) -> bool:
    if name.startswith("__") and name.endswith("__"):
        allowed = DUNDERS if kind == "plain" else {"__init__"}
        return name not in allowed | {"__doc__", "__slots__", "__match_args__", "__constants__"}
    if kind == "module":
        return name in MODULE_METHODS
    return kind == "function" and name not in OF_A_FUNCTION and name in ("apply", "vjp", "metadata")


def names_bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Import() | ast.ImportFrom():
            return [a.asname or a.name for a in node.names]
    return [
        name
        for child in ast.iter_child_nodes(node)
        if isinstance(child, ast.stmt)
        for name in names_bound(child)
    ]
