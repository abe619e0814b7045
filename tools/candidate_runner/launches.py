"""Records the candidate's Triton launches inside a runner on `cuda`, and suppresses them on request.

It is switched off while anything is timed. A launch is the candidate's own when its kernel was
written in the candidate's file: what torch.compile or a library launches is not. The record comes
from the candidate's process and can be forged: it serves explanations, and counts as proof of work only
where the output is wrong with the launches suppressed. Kernels that did not compile are kept as well: the
candidate may have caught the exception. On `virtual` the executor's own log is used. What
it costs: benchmarks/results/recorder_cost.md. Triton's launcher never ran on a GPU so far; it is tried
with a driver that does nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kernelagent.tools.candidate_runner.candidate import CandidateFailure, failure_of
from kernelagent.tools.compiler_options import FROM_ELSEWHERE, refusal, set_by_hand
from kernelagent.tools.cuda.launchers import Signature, signature_of

MOST_ROWS = 512
"""Launches of one call that are kept apart; tuning makes thousands."""
_MOST_FAILURES = 8
Annotate = Callable[[str], Any]


@dataclass
class Launches:
    """What has been launched since it was last asked; `source`: the candidate's file."""

    source: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    others: int = 0
    """Launches of kernels from elsewhere."""
    suppressed: bool = False
    kernels: dict[str, Any] = field(default_factory=dict)
    """The candidate's compiled kernels by content hash, for what the compiler says of them."""
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The first launch of each of them: a CUDA graph may launch it again, unseen from here."""
    signatures: set[Signature] = field(default_factory=set)
    """Of launchers that Triton has compiled here since it was last asked."""
    failures: list[dict[str, Any]] = field(default_factory=list)
    """Why Triton did not compile own kernels: `message` and `detail` of the first few."""
    _annotate: Annotate | None = None
    _prefix: str = ""
    _take_off: Callable[[], None] | None = None

    def take(self) -> tuple[list[dict[str, Any]], int]:
        """The rows and the number of others since the last time, which are then forgotten."""
        rows, others = self.rows, self.others
        self.rows, self.others = [], 0
        return rows, others

    def take_signatures(self) -> list[Signature]:
        """Those since the last time."""
        signatures, self.signatures = sorted(self.signatures), set()
        return signatures

    @contextmanager
    def annotated(self, annotate: Annotate, prefix: str) -> Iterator[None]:
        """In it every own launch stands inside `annotate(prefix + its number)`, so that a trace shows it."""
        self._annotate, self._prefix = annotate, prefix
        try:
            yield
        finally:
            self._annotate = None

    def recording(self, compiled: Any, launcher: Callable[..., Any]) -> Callable[..., Any]:
        """What launches `compiled` from now on in the place of `launcher`: decided once per kernel."""
        if (signature := signature_of(compiled)) is not None:
            self.signatures.add(signature)
        if not self._is_own(compiled):
            return partial(self._launch_foreign, launcher)
        row = row_of(compiled)
        self.kernels.setdefault(row["hash"], compiled)
        return partial(self._launch_own, row, launcher)

    def compiled(self, compile_source: Callable[..., Any], source: Any, **named: Any) -> Any:
        """What `compile_source` makes of `source`; raises what it raises, which is kept for an own kernel."""
        function = getattr(source, "fn", None)
        try:
            if self._is_written_here(function):
                _require_options_of_here(function, **named)
            return compile_source(source, **named)
        except Exception as error:  # noted and raised again
            if self._is_written_here(function) and len(self.failures) < _MOST_FAILURES:
                name = getattr(function, "__name__", "a kernel")
                failure = failure_of(error, f"compiling `{name}`")
                self.failures.append({"message": failure.message, "detail": failure.detail})
            raise

    def _launch_foreign(self, launcher: Callable[..., Any], *args: Any) -> Any:
        self.others += 1
        return launcher(*args)

    def _launch_own(self, kernel: dict[str, Any], launcher: Callable[..., Any], *args: Any) -> Any:
        number = len(self.rows)
        row = {**kernel, "grid": [int(size) for size in args[:3]]}
        self.known.setdefault(row["hash"], row)
        if number < MOST_ROWS:
            self.rows.append(row)
        if self.suppressed:
            return None
        if self._annotate is None:
            return launcher(*args)
        with self._annotate(f"{self._prefix}{number}"):
            return launcher(*args)

    def stand_aside(self) -> None:
        """Record nothing from now on: launches are Triton's own again, as where nobody records."""
        if self._take_off is not None:
            self._take_off()
            self._take_off = None

    def _is_own(self, compiled: Any) -> bool:
        return self._is_written_here(function_of(compiled))

    def _is_written_here(self, function: Any) -> bool:
        code = getattr(getattr(function, "fn", None), "__code__", None)
        return code is not None and _resolved(code.co_filename) == _resolved(self.source)


def _require_options_of_here(
    function: Any, target: Any = None, options: Mapping[str, Any] | None = None, **_: Any
) -> None:
    others = () if target is None else set_by_hand(options or {}, target)
    names = tuple(name for name in others if name in FROM_ELSEWHERE)
    if names:
        raise CandidateFailure("compile_error", refusal(function.__name__, names, "here"))


def function_of(compiled: Any) -> Any:
    """The @triton.jit function behind a compiled kernel; None for one compiled from text."""
    return getattr(compiled.src, "fn", None)


def row_of(compiled: Any) -> dict[str, Any]:
    """A launch as plain data but for its `grid`, with the keys that a row of the executor's log has."""
    function, metadata = function_of(compiled), compiled.metadata
    return {
        "kernel": str(getattr(function, "__name__", compiled.name)),
        "compiled": str(compiled.name),
        "hash": str(compiled.hash),
        "line": int(getattr(function, "starting_line_number", 0)),
        "options": {
            "num_warps": int(metadata.num_warps),
            "num_stages": int(getattr(metadata, "num_stages", 0)),
        },
        "metadata": {"shared": int(metadata.shared)},
    }


def watch_launches(launches: Launches) -> None:
    """Let every launch of this process go through `launches`; before a candidate is imported.

    Until `launches` is told to stand aside. What jitted functions compile goes through it, too.
    """
    from triton import compiler
    from triton.compiler import CompiledKernel

    # Jitted functions look it up there, each when it is first launched.
    compiler.compile = partial(launches.compiled, compiler.compile)
    original = CompiledKernel.run
    recorders: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()

    def run(self: Any) -> Any:
        recorder = recorders.get(self)
        if recorder is None:
            # The launcher is made here, at the kernel's first launch; its errors are Triton's.
            recorder = recorders[self] = launches.recording(self, original.fget(self))
        return recorder

    def take_off() -> None:
        CompiledKernel.run = original

    CompiledKernel.run = property(run)
    launches._take_off = take_off


def _resolved(path: str) -> str:
    return str(Path(path).resolve())
