"""What the installed Triton has, read from its files: the reading itself must not import it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_BLOCK_POINTERS = frozenset({"make_block_ptr", "advance"})


def missing_from_language(package: Path | None) -> frozenset[str]:
    """Names of `triton.language` that raise in the Triton of this folder; none where there is no Triton.

    Block pointers are names that only raise once what would compute them is gone.
    """
    file = None if package is None else package / "language" / "semantic.py"
    if file is None or not file.is_file():
        return frozenset()
    gone = "def make_block_ptr(" not in file.read_text(encoding="utf-8")
    return _BLOCK_POINTERS if gone else frozenset()


def installed_triton() -> Path | None:
    """Its folder."""
    found = find_spec("triton")
    return None if found is None or found.origin is None else Path(found.origin).parent
