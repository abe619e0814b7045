"""What executors have compiled of a candidate: its next executor begins with copies, and compiles nothing again.

An executor runs Triton's compiler on the text of a candidate's kernels and none of its Python. Its cache is still copied by
the judge, and never shared: no executor can change what another one reads.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from hashlib import sha256
from pathlib import Path

_CANDIDATES = 8
"""Whose kernels are kept, the latest of them."""
_MOST_BYTES = 32 << 20
"""Of one candidate: beyond that copying takes longer than it saves."""
_GROUPS = "*/__grp__*"
"""Files in which Triton lists the other files of one kernel, by their whole paths."""
_CACHE = "{cache}"
"""Stands for the cache's own path in the copies of those."""


class CompiledKernels:
    """Triton's caches of executors that have ended, one for each candidate, in a folder of the judge's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, Path] = OrderedDict()

    def copy_to(self, cache: Path, source: str) -> None:
        """Fill the empty cache of an executor of this candidate with what earlier ones compiled."""
        kept = self._kept.get(_key(source))
        if kept is not None:
            shutil.copytree(kept, cache)
            for group in cache.glob(_GROUPS):
                group.write_text(group.read_text().replace(_CACHE, str(cache)))

    def keep(self, cache: Path, source: str) -> None:
        """An executor of this candidate has ended, and its cache is about to be removed."""
        entries = [entry for entry in cache.glob("*/*") if entry.is_file()]
        kept = self._folder / _key(source)
        new = [e for e in entries if not (kept / e.relative_to(cache)).exists()]
        if not new or sum(entry.stat().st_size for entry in entries) > _MOST_BYTES:
            return
        for entry in new:
            copy = kept / entry.relative_to(cache)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(entry, copy)
            if copy.match(_GROUPS):
                copy.write_text(copy.read_text().replace(str(cache), _CACHE))
        self._kept[kept.name] = kept
        self._kept.move_to_end(kept.name)
        while len(self._kept) > _CANDIDATES:
            shutil.rmtree(self._kept.popitem(last=False)[1])


def _key(source: str) -> str:
    return sha256(source.encode()).hexdigest()[:16]
