"""What a candidate's kernels are compiled and tuned for: on a GPU each time anew, which no estimate has in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelagent.domain.evaluation import Disclosure

_USUAL = 2
"""Variants of a kernel that calls of one size may need: modes, alignments, layouts."""
_MOST_KEYS = 4
"""What calls of one size may be tuned for: modes, flags and numbers that are varied."""
_MOST_TUNING_MS = 2000
"""Triton's own default is an eighth of a second for each configuration."""
Constants = tuple[tuple[str, str], ...]


@dataclass
class Specialised:
    """Constants of the judged launches, by kernel and input set; grows call by call."""

    seen: dict[tuple[str, str], set[Constants]] = field(default_factory=dict)
    in_one_call: dict[str, int] = field(default_factory=dict)
    """The most variants of a kernel that one call launched."""
    integers: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    """Values of each integer constant, by kernel and name."""
    hidden: set[str] = field(default_factory=set)
    """Input sets at hidden sizes."""

    def note(self, input_set: str, rows: Sequence[Mapping[str, Any]], *, hidden: bool) -> None:
        """The launches of one judged call."""
        if hidden:
            self.hidden.add(input_set)
        here: dict[str, set[Constants]] = {}
        for row in rows:
            kernel, constants = str(row["kernel"]), row.get("constexprs", {})
            options = row.get("options", {})
            named = sorted(
                (name, repr(value)) for name, value in (*constants.items(), *options.items())
            )
            here.setdefault(kernel, set()).add(tuple(named))
            for name, value in constants.items():
                if type(value) is int:
                    self.integers.setdefault((kernel, str(name)), set()).add(value)
        for kernel, variants in here.items():
            self.seen.setdefault((kernel, input_set), set()).update(variants)
            self.in_one_call[kernel] = max(self.in_one_call.get(kernel, 0), len(variants))

    def disclosures(self, tunings: Sequence[Tuning], configurations: int) -> tuple[Disclosure, ...]:
        """`tunings`: as the candidate's process tells them; `configurations`: of an autotuned kernel, at most."""
        reported = (*self._compiled(configurations), *self._tuned(tunings))
        return (Disclosure("compiles_anew", "; ".join(reported)),) if reported else ()

    def _compiled(self, configurations: int) -> list[str]:
        reported = []
        for kernel in dict.fromkeys(kernel for kernel, _ in self.seen):
            most = max(len(known) for (name, _), known in self.seen.items() if name == kernel)
            if most > _USUAL * self.in_one_call[kernel] * max(1, configurations):
                reported.append(
                    f"`{kernel}` was compiled with {most} sets of constants for calls of one size: on a GPU "
                    f"calls wait for the compiler, later ones too"
                )
        for (kernel, name), values in self.integers.items():
            sizes = [value for value in values if value & (value - 1)]
            if self.hidden and len(values) > len(self.hidden) and sizes:
                reported.append(
                    f"`{kernel}` is compiled anew for each size (its constant {name} was one of "
                    f"{len(values)} numbers): on a GPU the first call of a size waits for the compiler"
                )
        return reported

    def _tuned(self, tunings: Sequence[Tuning]) -> list[str]:
        reported = []
        sets = len({name for _, name in self.seen})
        for item in tunings:
            if item.by_tensor:
                reported.append(
                    f"`{item.kernel}` is tuned by a tensor, which is another in each call: on a GPU each "
                    f"call times all configurations"
                )
            elif item.made_anew:
                reported.append(
                    f"`{item.kernel}` is given to `triton.autotune` again in call after call: on a GPU each of them "
                    f"times all configurations"
                )
            elif item.keys > _MOST_KEYS * max(1, sets):
                reported.append(
                    f"`{item.kernel}` is tuned anew in call after call ({item.keys} times in the judged calls): "
                    f"on a GPU each of them times all configurations"
                )
            elif self.hidden and item.keys > max(1, sets - len(self.hidden)):
                reported.append(
                    f"`{item.kernel}` is tuned anew for each size ({item.keys} times in the judged calls): "
                    f"on a GPU the first call of a size times all configurations"
                )
            if item.ms > _MOST_TUNING_MS:
                reported.append(
                    f"`{item.kernel}` is tuned for {item.ms / 1000:,.0f} s with each configuration "
                    f"(warmup and rep)"
                )
        return reported


@dataclass(frozen=True)
class Tuning:
    """What an autotuned kernel was tuned for in the judged calls."""

    kernel: str
    keys: int
    by_tensor: bool
    """A tensor is among what its key names: Triton tells tensors apart by identity."""
    ms: float
    """Warming up and timing of one configuration."""
    made_anew: bool = False
    """Most calls came with a tuner of their own, which knows nothing of what was tuned before."""
