"""The screens as they were when somebody last looked at them: `tests/tui/screens`."""

from __future__ import annotations

import pytest

from tests.tui.drawn_screens import DRAWINGS, FOLDER, drawn


@pytest.mark.long
@pytest.mark.parametrize("name", DRAWINGS)
def test_a_screen_is_drawn_as_it_was_looked_at(name: str) -> None:
    looked_at = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert drawn(name).split("\n") == looked_at.split("\n"), (
        "look at the difference; if it is wanted: python tests/tui/drawn_screens.py"
    )


def test_no_screen_is_kept_that_is_not_drawn() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(DRAWINGS)


def test_without_colours_a_screen_says_the_same_in_greys() -> None:
    with_colours, without = (
        (FOLDER / f"live{n}.txt").read_text("utf-8") for n in ("", "-no-colour")
    )
    height = len(with_colours.splitlines())
    assert without.splitlines()[:height] == with_colours.splitlines()
    named = [line.split(": ")[1] for line in without.splitlines() if line[1:3] == ": "]
    assert len(named) > 3
    for style in named:
        for colour in (word for word in style.split() if word.startswith("#")):
            assert colour[1:3] == colour[3:5] == colour[5:7], style
