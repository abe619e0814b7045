"""Every cheat is refused and every honest kernel accepted, on this GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernelagent.proof import prove


@pytest.mark.timeout(3600)
def test_the_corpora_go_as_they_must(written: Callable[[str, str], None]) -> None:
    proof = prove("cuda", quick=False)
    wrong = [row for row in proof.rows if not row.as_expected]
    lines = [
        "# The corpora on a GPU",
        "",
        f"{len(proof.rows)} rows, {len(wrong)} not as they must.",
    ]
    lines += [f"- {r.kind} {r.name}: {r.expected} expected, {r.got}: {r.message}" for r in wrong]
    written("corpora_cuda.md", "\n".join(lines))
    assert wrong == []
