"""The reports of a run: `report.md`, `report.html` and `report.json`, from its log."""

from __future__ import annotations
