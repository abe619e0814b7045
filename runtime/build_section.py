"""Writes `kernelagent_runtime/section.py` from the drop-in's parts: `python runtime/build_section.py`."""

from __future__ import annotations

from pathlib import Path

from kernelagent.dropin.runtime_package import section_text

if __name__ == "__main__":
    place = Path(__file__).parent / "kernelagent_runtime" / "section.py"
    place.write_text(section_text(), encoding="utf-8")
