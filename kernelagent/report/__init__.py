"""The run for a reader who was not there: `report.md`, `report.html` and `report.json`, from its log."""

from __future__ import annotations
