from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import WinnerMeasured
from kernelagent.report.terminal.profile_text import print_profile, save_roofline
from tests.report.logs import measured, recorded

(ESTIMATED,) = (e.event.evaluation for e in recorded() if isinstance(e.event, WinnerMeasured))


def printed(evaluation) -> str:
    out = io.StringIO()
    print_profile(Console(file=out, width=120), evaluation)
    return out.getvalue()


def test_a_measured_profile_shows_number_kernels_headroom_and_roofline():
    text = printed(measured(1.62))
    for words in (
        "1.62× eager [1.60, 1.64]",
        "norm",
        "launched 2 times",
        "31 µs a call",
        "of its roof",
    ):
        assert words in text


def test_an_estimated_profile_never_stands_without_the_word():
    text = printed(ESTIMATED)
    assert "not timed; estimate 4.2 µs" in text
    assert "of the estimated device time" in text
    assert "(estimate, not timed)" in text


def test_a_kernels_name_cannot_command_the_terminal():
    kernel = replace(ESTIMATED.kernels[0], name="\x1b[31m[bold]x")
    assert "\x1b" not in printed(replace(ESTIMATED, kernels=(kernel,)))


def test_the_roofline_is_kept_as_svg(tmp_path):
    save_roofline(measured(1.62), tmp_path / "roof.svg")
    assert "Roofline (measured)" in (tmp_path / "roof.svg").read_text(encoding="utf-8")


def test_what_cannot_be_drawn_or_written_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no roofline to draw"):
        save_roofline(ESTIMATED, tmp_path / "roof.svg")
    with pytest.raises(UsageError, match=r"as \.svg or \.png"):
        save_roofline(measured(1.62), tmp_path / "roof.gif")
