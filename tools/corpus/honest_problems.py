"""Honest kernels for problems that checkers get wrong: views, infinities, zeros, counters, odd structures.

Each problem is one of the bases whose name begins with `h_`; the pattern is its first line.
"""

from __future__ import annotations

from kernelagent.tools.corpus.fixture import Fixture, honest_kernel


def _plain(base: str, name: str, discloses: str | None = None) -> Fixture:
    return Fixture(name, base, honest_kernel(base), discloses=discloses)


PROBLEMS: tuple[Fixture, ...] = (
    _plain("h_attention", "attention-with-a-running-softmax"),
    _plain("h_views_in", "inputs-that-are-views"),
    _plain("h_views_out", "returns-a-view-of-its-input-as-the-reference"),
    _plain("h_lookup", "integer-indices"),
    _plain("h_loss", "one-number-by-atomics"),
    _plain("h_tower", "layers-in-nested-lists", discloses="library_share"),
    _plain("h_bf16_norm", "module-in-bfloat16"),
    _plain("h_below_zero", "nothing-but-zeros-is-right"),
    _plain("h_statistics", "statistics-and-a-counter-updated"),
    _plain("h_nested", "nested-inputs-and-outputs"),
    _plain("h_squash", "tangent-by-exponentials"),
    _plain("h_three_products", "three-weights-packed-and-watched"),
    _plain("h_prologue", "kernel-before-a-library-product", discloses="library_share"),
    _plain("h_scan", "running-sums-in-blocks"),
    _plain("h_dropout", "dropout-left-out-in-eval", discloses="library_share"),
    _plain("h_half_tail", "half-module-computed-in-float"),
)
