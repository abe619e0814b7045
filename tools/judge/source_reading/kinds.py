"""What a use that is not on the allow-list is called, and the one sentence that a user reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "asks_where_it_runs",
    "asks_device_properties",
    "breaks_the_graph",
    "values_on_host",
    "keeps_state",
    "shares_state",
    "acts_later",
    "overrides",
    "changes_others",
    "reaches_outside",
    "unreadable",
]

NOT_JUDGED: Mapping[Code, str] = {
    "unreadable": "this reading cannot follow what that does, and it was not judged beyond the calls that were made",
    "changes_others": "that changes, or takes a name in, what your program shares with other code, as settings and torch's table of operators; "
    "its effect there was not judged",
    "acts_later": "that has effects at another time, or elsewhere than in the calls that were judged; they were not judged",
    "overrides": "torch calls that when your program saves, loads, copies, moves or prints the module; what it does then was "
    "not judged",
    "keeps_state": "that stays from call to call; what it does after more calls, or other ones, than were made was not judged",
    "shares_state": "that is shared by instances or copies of the module; what one does to another was not judged",
    "asks_where_it_runs": "the answer may be another in your program than while it was judged or estimated; what it does then was not "
    "judged",
    "reaches_outside": "that is not known to this reading as part of computing a result, or writes to your program's output; what it "
    "reads, writes or leaves behind was not judged",
    "values_on_host": "that takes values to the host; what it decides by other values, and how long a GPU is waited for, was not "
    "judged",
    "breaks_the_graph": "torch.compile leaves its graph there; with fullgraph=True, under which an emitted module is to be one graph, "
    "it raises an error",
    "asks_device_properties": "its result and its speed on a GPU with other properties were not judged",
}
"""In the order in which they are told."""


@dataclass(frozen=True, order=True)
class Remark:
    """One place in the text."""

    line: int
    code: Code
    text: str
    """The expression as it is written."""


_ATTRIBUTES: Mapping[Code, str] = {
    "unreadable": """
        __dict__ __class__ __bases__ __mro__ __subclasses__ __globals__ __code__ __closure__ __defaults__ __kwdefaults__ __builtins__
        __getattribute__ __getattr__ __import__ __reduce__ __reduce_ex__ __func__ __self__ __wrapped__ __new__ __init_subclass__
        __slots__ __match_args__ f_back f_code f_globals f_locals f_builtins tb_frame tb_next gi_frame cr_frame fn src raw_src _unsafe_update_src
        used_global_vals cache_hook format_map attrgetter methodcaller modules
    """,
    "changes_others": "requires_grad_ grad set_ resize_ resize_as_ share_memory_ retain_grad set_data apply_ map_ swap_",
    "acts_later": """
        __del__ register_hook register_post_accumulate_grad_hook register_forward_hook register_forward_pre_hook
        register_full_backward_hook register_full_backward_pre_hook register_backward_hook register_load_state_dict_post_hook
        register_load_state_dict_pre_hook register_state_dict_post_hook register_state_dict_pre_hook _register_load_state_dict_pre_hook
        _register_state_dict_hook record_stream wait_stream wait_event pre_hook post_hook add_pre_run_hook backward
    """,
    "values_on_host": "cpu item tolist numpy is_nonzero allclose equal hash_tensor __bool__ __float__ __int__ __array__ to_list nonzero_static",
    "asks_device_properties": """
        multi_processor_count multiprocessor_count max_shared_mem shared_memory_per_block total_memory warp_size
        max_threads_per_multi_processor get_device_properties regs_per_multiprocessor L2_cache_size
    """,
    "overrides": """
        state_dict load_state_dict _load_from_state_dict _save_to_state_dict get_extra_state set_extra_state train eval _apply
        extra_repr to_empty zero_grad _call_impl __setstate__ __getstate__
    """,
    "keeps_state": "cache_clear cache_info __next__ send",
}
_KIND_OF_ATTRIBUTE: Mapping[str, Code] = {
    name: code for code, text in _ATTRIBUTES.items() for name in text.split()
}
TELLING: frozenset[str] = frozenset(_KIND_OF_ATTRIBUTE) | frozenset(
    """
    asm data_ptr const_data_ptr untyped_storage storage storage_offset storage_type is_meta _version requires_grad is_leaf grad_fn
    is_inference is_cuda is_cpu is_pinned is_shared get_device device_type type hooks _backward_hooks n_regs n_spills metadata
    cache warmup run best_config configs active driver kernel function hash __name__ __file__ __qualname__ __module__ __doc__ __version__
    push callback pop_all push_async_exit push_async_callback
    layout is_sparse is_nested names output_nr version hip backends version_info maxsize device_caches num_ctas
    """.split()
)
"""Names with a meaning on tensors, kernels, functions or frames: that a class of the candidate's has an attribute of
the same name does not make reading it elsewhere harmless."""

GUARDED: frozenset[str] = frozenset(
    "is_cuda is_cpu is_sparse layout type requires_grad is_leaf get_device".split()
)
"""What may be asked where the answer can only end the call with an error."""

_PATHS: tuple[tuple[str, Code], ...] = (
    ("torch.cuda.get_device_properties", "asks_device_properties"),
    ("torch.cuda.get_device_capability", "asks_device_properties"),
    ("torch.cuda.get_device_name", "asks_device_properties"),
    ("torch.cuda.Stream", "acts_later"),
    ("torch.cuda.stream", "acts_later"),
    ("torch.cuda.Event", "acts_later"),
    ("torch.cuda.graph", "acts_later"),
    ("torch.cuda.CUDAGraph", "acts_later"),
    ("torch.cuda.set_stream", "acts_later"),
    ("torch.cuda.synchronize", "values_on_host"),
    ("torch.cuda", "asks_where_it_runs"),
    ("torch.allclose", "values_on_host"),
    ("torch.equal", "values_on_host"),
    ("torch.compiler.disable", "breaks_the_graph"),
    ("torch._dynamo.disable", "breaks_the_graph"),
    ("torch._dynamo.graph_break", "breaks_the_graph"),
    ("torch.compile", "unreadable"),
    ("torch.library", "changes_others"),
    ("torch.save", "reaches_outside"),
    ("torch.load", "reaches_outside"),
    ("torch.ops", "reaches_outside"),
    ("torch._C", "unreadable"),
    ("torch", "asks_where_it_runs"),
    ("triton.set_allocator", "changes_others"),
    ("triton.language.device_print", "reaches_outside"),
    ("triton.language.static_print", "reaches_outside"),
    ("triton.language.core.device_print", "reaches_outside"),
    ("triton.language.core.static_print", "reaches_outside"),
    ("triton.language.inline_asm_elementwise", "unreadable"),
    ("triton.language.target_info", "asks_where_it_runs"),
    ("triton", "asks_where_it_runs"),
    ("weakref", "acts_later"),
    ("atexit", "acts_later"),
    ("signal", "acts_later"),
    ("threading.current_thread", "asks_where_it_runs"),
    ("threading.main_thread", "asks_where_it_runs"),
    ("threading.get_ident", "asks_where_it_runs"),
    ("threading.active_count", "asks_where_it_runs"),
    ("threading.enumerate", "asks_where_it_runs"),
    ("threading", "acts_later"),
    ("_thread", "acts_later"),
    ("concurrent", "acts_later"),
    ("asyncio", "acts_later"),
    ("multiprocessing", "acts_later"),
    ("sched", "acts_later"),
    ("queue", "acts_later"),
    ("functools.lru_cache", "keeps_state"),
    ("functools.cache", "keeps_state"),
    ("functools.cached_property", "keeps_state"),
    ("itertools", "keeps_state"),
    ("time", "asks_where_it_runs"),
    ("datetime", "asks_where_it_runs"),
    ("platform", "asks_where_it_runs"),
    ("sys", "asks_where_it_runs"),
    ("os", "asks_where_it_runs"),
    ("inspect", "asks_where_it_runs"),
    ("traceback", "asks_where_it_runs"),
    ("gc", "asks_where_it_runs"),
    ("random", "asks_where_it_runs"),
    ("uuid", "asks_where_it_runs"),
    ("secrets", "asks_where_it_runs"),
    ("getpass", "asks_where_it_runs"),
    ("importlib", "unreadable"),
    ("ctypes", "unreadable"),
    ("operator", "unreadable"),
    ("types", "unreadable"),
    ("builtins", "unreadable"),
    ("pickle", "unreadable"),
    ("marshal", "unreadable"),
    ("copyreg", "changes_others"),
    ("codecs", "changes_others"),
    ("decimal", "changes_others"),
)
_CHANGING = (
    "set",
    "register",
    "unregister",
    "disable",
    "enable",
    "install",
    "patch",
    "replace",
    "reset",
    "empty_cache",
    "ipc_collect",
    "seed",
    "manual_seed",
    "umask",
    "use_",
)
_BUILTINS: Mapping[Code, str] = {
    "unreadable": "eval exec compile __import__ globals locals vars dir getattr setattr delattr hasattr type memoryview super __build_class__ "
    "__builtins__ __loader__ __spec__ breakpoint object bytearray",
    "reaches_outside": "open input print",
    "keeps_state": "next",
    "asks_where_it_runs": "id hash __name__ __file__ __package__ __debug__ isinstance callable issubclass",
}


def of_attribute(name: str) -> Code:
    """What asking a value for this is called."""
    return _KIND_OF_ATTRIBUTE.get(name, "asks_where_it_runs")


def of_builtin(name: str) -> Code:
    for code, text in _BUILTINS.items():
        if name in text.split():
            return code
    return "unreadable"


def of_path(path: str) -> Code:
    """What the use of something from an imported module is called."""
    last = path.rpartition(".")[2]
    known = (code for start, code in _PATHS if _is_within(path, start))
    code: Code = next(known, "reaches_outside")
    if code in ("asks_where_it_runs", "reaches_outside") and last.startswith(_CHANGING):
        return "changes_others"
    if code == "asks_where_it_runs" and last in _KIND_OF_ATTRIBUTE:
        return _KIND_OF_ATTRIBUTE[last]
    return code


def _is_within(path: str, start: str) -> bool:
    return path == start or path.startswith(f"{start}.")


def in_order(codes: set[Code]) -> Iterator[Code]:
    """The codes as they are told."""
    return (code for code in NOT_JUDGED if code in codes)
