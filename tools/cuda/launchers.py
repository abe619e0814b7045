"""The C launchers that Triton up to 3.6 compiles, one for each signature of a kernel.

A launcher is made from the kinds of a kernel's arguments alone. A candidate's process tells these
kinds, and the judge believes no more than a list of known words: what is compiled from them is Triton's own.
"""

from __future__ import annotations

from typing import Any

LAUNCHER = "__triton_launcher"
_POINTER = "*i8"
_KINDS = frozenset(
    f"{_POINTER} constexpr i1 i8 i16 i32 i64 u1 u8 u16 u32 u64 fp16 bf16 fp32 f32 fp64".split()
)
_MOST_ARGUMENTS = 256
_MOST_TOLD = 16

Signature = tuple[str, ...]


def signature_of(compiled: Any) -> Signature | None:
    """The kinds of a compiled kernel's arguments, where its launcher is made from nothing else.

    None where this triton compiles no launcher, or for arguments that are tuples or descriptors.
    """
    from triton.backends.nvidia import driver

    kinds = getattr(compiled.src, "signature", None)
    if kinds is None or not hasattr(driver, "make_launcher"):
        return None
    # All pointers are handled alike.
    plain = [_POINTER if str(kind).startswith("*") else kind for kind in kinds.values()]
    return tuple(plain) if _KINDS.issuperset(map(str, plain)) else None


def accepted(reported: object) -> list[Signature]:
    """What of the signatures that an untrusted process tells a launcher may be compiled for."""
    rows = reported if isinstance(reported, list) else []
    return [
        tuple(row)
        for row in rows[:_MOST_TOLD]
        if isinstance(row, list)
        and len(row) <= _MOST_ARGUMENTS
        and all(isinstance(kind, str) and kind in _KINDS for kind in row)
    ]


def compile_launchers(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main: the launchers of these `signatures` are then in its triton cache."""
    from triton.backends.nvidia import driver

    for signature in settings["signatures"]:
        driver.compile_module_from_src(
            src=driver.make_launcher({}, dict(enumerate(signature)), None),
            name=LAUNCHER,
            library_dirs=driver.library_dirs(),
            include_dirs=driver.include_dirs,
            libraries=driver.libraries,
        )
