"""The three reports of a run, written beside its log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kernelagent.domain.events import Logged
from kernelagent.report.contents import document
from kernelagent.report.html import as_html
from kernelagent.report.markdown import as_markdown
from kernelagent.report.record import result_record
from kernelagent.storage.output_file import write_atomically
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.run_state import fold

_ADVICE = "free space there; `kernelagent report RUN` writes the reports again"


def write_reports(folder: RunFolder) -> None:
    """The reports of a run that this process wrote the log of."""
    write_for(folder, list(read_events(folder.log)))


def write_for(folder: RunFolder, events: Sequence[Logged]) -> None:
    """`report.json`, `report.md` and `report.html` into the run's folder, each whole or not at all."""
    for name, text in reports(events, folder.path).items():
        write_atomically(folder.path / name, text, force=True, advice=_ADVICE)


def reports(events: Sequence[Logged], run: Path) -> dict[str, str]:
    """File name to text, from the events alone; `run` is the folder they are said to be of."""
    state = fold(events)
    whole = document(state, events)
    record = json.dumps(result_record(state, run), indent=1, ensure_ascii=False)
    return {
        "report.json": f"{record}\n",
        "report.md": as_markdown(whole),
        "report.html": as_html(whole),
    }
