"""What the installed Triton has, read from its files: the reading itself must not import it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_BLOCK_POINTERS = frozenset({"make_block_ptr", "advance"})
_WHERE_THEY_ARE = (("semantic.py", "def make_block_ptr("), ("core.py", "class _block_ptr:"))
"""What computes them up to Triton 3.7, and in 3.8."""


def missing_from_language(package: Path | None) -> frozenset[str]:
    """Names of `triton.language` that raise in the Triton of this folder; none where there is no Triton.

    Block pointers are names that only raise once what would compute them is gone.
    """
    if package is None or not (package / "language").is_dir():
        return frozenset()
    kept = any(_says(package / "language" / file, text) for file, text in _WHERE_THEY_ARE)
    return frozenset() if kept else _BLOCK_POINTERS


def _says(file: Path, text: str) -> bool:
    return file.is_file() and text in file.read_text(encoding="utf-8")


def installed_triton() -> Path | None:
    """Its folder."""
    result = find_spec("triton")
    return None if result is None or result.origin is None else Path(result.origin).parent
