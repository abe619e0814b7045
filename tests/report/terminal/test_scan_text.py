"""Which parts of a scan a person sees."""

from __future__ import annotations

from kernelagent.domain.whole_model import Scan, ScanRow
from kernelagent.report.terminal.scan_text import scan_text
from tests.evaluations import accepted


def row(path: str, device_us: float, gain: float | None) -> ScanRow:
    return ScanRow(path, "Part", 1, device_us, device_us / 100, None, gain)


def test_of_many_parts_those_that_take_the_least_are_left_out_wherever_they_stand() -> None:
    rows = (row("norm", 8.0, 1.05), row("dropout", 0.0, 1.0), row("body", 90.0, None))
    device = accepted(2.0).device
    scan = Scan("model.py", device, "estimate", 100.0, rows)
    text = scan_text(scan, most=2)
    assert "body" in text
    assert "dropout" not in text
    assert text.index("norm") < text.index("body")
    assert "and 1 more, which take less time; --json has all" in text
