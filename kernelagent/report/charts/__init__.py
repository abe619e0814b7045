"""Charts as text: each is a pure function that returns inline SVG, or Unicode lines for a terminal.

A drawing says what it shows in words as well (`<title>`, `<desc>`), needs nothing from outside, escapes
whatever text it is given, and follows the reader's light or dark scheme.
"""

from __future__ import annotations
