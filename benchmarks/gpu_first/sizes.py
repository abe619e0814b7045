"""Examples at the sizes that they name for a GPU."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.gpu_first.plan import ROOT

EXAMPLES = ROOT / "examples"
WORDS = {"rotary_embedding": ("--module", "RotaryEmbedding", "--inputs", "example_inputs")}
"""What the command needs besides the file."""
_SIZE = re.compile(r"^(\w+ = )\d+(  # )on a GPU: (\d+)$", re.MULTILINE)


def at_gpu_size(text: str) -> str:
    """An example's text with every `NAME = 1  # on a GPU: 2` set to the second number."""
    return _SIZE.sub(r"\g<1>\g<3>\g<2>at its size for a GPU", text)


def examples() -> list[Path]:
    return sorted(EXAMPLES.glob("*.py"))


def write_at_gpu_size(example: Path, folder: Path) -> Path:
    """A copy in `folder`; raises ValueError for an example that names no such size."""
    text = example.read_text(encoding="utf-8")
    larger = at_gpu_size(text)
    if larger == text:
        raise ValueError(f"{example.name} does not say which sizes it has on a GPU")
    copy = folder / example.name
    copy.write_text(larger, encoding="utf-8")
    return copy
