"""Kernels as real projects have them, written anew: one problem and one honest kernel for each idiom.

Their files are `bases/i_<name>.py` and `bases/i_<name>_kernel.py`.
"""

from __future__ import annotations

from pathlib import Path

from kernelagent.tools.corpus.fixture import Fixture, honest_kernel

_PREFIX = "i_"
_NAMES = sorted(
    path.stem
    for path in (Path(__file__).parent.parent / "bases").glob(f"{_PREFIX}*.py")
    # A problem is what has a kernel: its own name may end so as well.
    if path.with_name(f"{path.stem}_kernel.py").is_file()
)
_TRAINED = frozenset(
    {
        "i_batch_norm_trained",
        "i_complex_filter_trained",
        "i_linear_cross_entropy_in_chunks",
        "i_soft_cross_entropy_trained",
        "i_softmax_and_dropout_trained",
    }
)
"""Judged as training steps, as `--train` does."""
IDIOMS: tuple[Fixture, ...] = tuple(
    Fixture(
        name.removeprefix(_PREFIX).replace("_", "-"),
        name,
        honest_kernel(name),
        mode="train" if name in _TRAINED else "eval",
    )
    for name in _NAMES
)
