"""Which harness gave a verdict: one hash over the sources that verdicts depend on."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from kernelagent.domain.tables import probes


@cache
def harness_sha256() -> str:
    """SHA-256 over the names and contents of everything under `tools`, and of the table of probes."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    digest.update(b"probes.py\0" + Path(probes.__file__).read_bytes() + b"\0")
    return digest.hexdigest()
