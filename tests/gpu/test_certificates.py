"""The promises of a certificate, on this GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.certificates import PAIRS, on_device, page

REPEAT = 10


@pytest.mark.timeout(7200)
def test_certificates_agree_see_three_percent_and_call_nothing_faster_than_itself(
    written: Callable[[str, str], None], tries: int
) -> None:
    found = [on_device(pair, "cuda", repeat=REPEAT, tries=tries) for pair in PAIRS]
    written("certificates.md", page(found, "`make gpu`"))
    for one in found:
        assert one.agreeing >= 9, one.pair
        assert one.seen == REPEAT, one.pair
        assert one.false_alarms == 0, one.pair
