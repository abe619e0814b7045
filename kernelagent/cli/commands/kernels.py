"""What `export` of a module and `import` do once their flags are read."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelagent.cli.commands.optimize import evaluation_text
from kernelagent.cli.terminal.json_output import print_json
from kernelagent.cli.terminal.stages import stages_of
from kernelagent.domain.certificate import certificate_in
from kernelagent.domain.configuration.config import resolve
from kernelagent.domain.errors import ExitStatus, UsageError
from kernelagent.domain.tables.export_formats import ExportFormat
from kernelagent.dropin.emit import EmittedFile
from kernelagent.loop.arguments import problem_spec
from kernelagent.storage.output_file import write_atomically
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.run_state import fold

_STATUS = {
    "accepted": ExitStatus.OK,
    "rejected": ExitStatus.NOT_FOUND,
    "error": ExitStatus.ENVIRONMENT,
}


def export(
    runs: Sequence[str], form: ExportFormat, out: Path | None, runs_folder: str | None
) -> ExitStatus:
    """Write the module of one run, or one emitted file, in a format of modules."""
    if out is None or len(runs) != 1:
        raise UsageError(f"--format {form.name} takes one run or emitted file, and --out FOLDER")
    emitted, source, layer = Path(runs[0]), "", ""
    if emitted.suffix != ".py":
        folder = RunFolder.open(runs[0], Path(resolve({"runs": runs_folder}).runs))
        emitted = folder.path / "module.py"
        facts = fold(read_events(folder.log)).facts
        if facts is not None:
            source, layer = facts.source, facts.entry_point
    if not emitted.is_file():
        raise UsageError(f"{runs[0]} has no module to export; `kernelagent show` says why")
    text = emitted.read_text(encoding="utf-8")
    line = form.made_by()(EmittedFile(text, certificate_in(emitted), source, layer), out)
    sys.stderr.write(f"kernelagent: wrote {out}: {line}\n")
    return ExitStatus.OK


def import_(
    place: Path,
    problem: str,
    name: str | None,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    *,
    as_json: bool,
) -> ExitStatus:
    """Judge, and write the file with its certificate where it was accepted."""
    from kernelagent.loop.emitted import imported

    config = resolve(flags)
    spec = problem_spec(problem, names)
    source = imported.source_in(place, name)
    out = Path(config.out or f"{place.stem}_imported.py")
    on_stage = stages_of(str(place), as_json=as_json)
    result = imported.judged(source, spec, config, out, on_stage)
    for finding in result.findings:
        sys.stderr.write(f"kernelagent: line {finding.line}: {finding.what}: {finding.why}\n")
    if as_json:
        print_json(result.evaluation)
    else:
        sys.stdout.write(evaluation_text(result.evaluation))
    if result.text is None:
        return _STATUS[result.evaluation.verdict]
    if result.findings and not config.force:
        sys.stderr.write("kernelagent: accepted, not written: look at the lines above; --force\n")
        return ExitStatus.NOT_FOUND
    write_atomically(out, result.text, force=config.force)
    sys.stderr.write(f"kernelagent: accepted; {out} carries the certificate\n")
    return ExitStatus.OK
