"""Calls that only answer: nothing else in a program is another when they are left out."""

from __future__ import annotations

from kernelagent.tools.judge.source_reading.allowed import ATTRIBUTES, BUILTINS, MEMBERS

CHANGING_METHODS: frozenset[str] = frozenset(
    "append appendleft extend insert pop popitem popleft remove clear update setdefault add discard sort reverse enter_context "
    "apply forward register_buffer register_parameter register_module add_module register_autograd register_fake children "
    "reset_parameters flatten_parameters mark_dirty mark_non_differentiable save_for_backward set_materialize_grads normal_ "
    "atomic_add atomic_max atomic_min store requires_grad_ __init__".split()
)
BUILTINS_THAT_ONLY_ANSWER: frozenset[str] = BUILTINS - frozenset({"iter", "super"})
METHODS_THAT_ONLY_ANSWER: frozenset[str] = frozenset(
    name for name in ATTRIBUTES if name not in CHANGING_METHODS and not name.endswith("_")
) | frozenset({"get_device", "is_integer", "is_pinned", "is_nonzero"})
_DRAW = frozenset(
    "rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal dropout dropout1d dropout2d dropout3d "
    "rrelu gumbel_softmax".split()
)
"""What takes random numbers from a generator, so that the next to ask for some gets others."""
_PACKAGES = frozenset({"torch", "triton", "math", "numpy", "operator", "typing", "numbers"})


def only_answers(path: str) -> bool:
    """Whether a call of this from a module has no effect."""
    module, _, name = path.rpartition(".")
    known = name in MEMBERS.get(module, ()) or name in METHODS_THAT_ONLY_ANSWER
    stores = name.startswith(("atomic_", "store")) or name.endswith("_")
    return path.split(".")[0] in _PACKAGES and known and not stores and name not in _DRAW
