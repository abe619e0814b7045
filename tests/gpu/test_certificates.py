"""The promises of a certificate, on this GPU."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from benchmarks.certificates import PAIRS, on_device, page

MOST = 10
"""How often the 3 % are certified when the promises are tried in full."""


@pytest.mark.timeout(int(os.environ.get("TRIES", "1")) * 240)
def test_certificates_agree_see_three_percent_and_call_nothing_faster_than_itself(
    written: Callable[[str, str], None], tries: int
) -> None:
    repeat = min(MOST, tries)
    result = [on_device(pair, "cuda", repeat=repeat, tries=tries) for pair in PAIRS]
    written("certificates.md", page(result, "`make gpu`"))
    for item in result:
        assert item.agreeing >= 0.9 * repeat, item.pair
        assert item.seen == repeat, item.pair
        assert item.false_alarms == 0, item.pair
