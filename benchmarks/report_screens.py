"""Screenshots of the HTML report of a recorded run, to be looked at by a person.

    python -m benchmarks.report_screens --out DIR [--run RUN]

Light, dark, narrow, and as paper (PDF), each with every turn closed as a reader finds it. Needs
Chromium or Chrome on the path; says so, and leaves with status 3, where there is none.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kernelagent.report.files import reports
from kernelagent.report.terminal.browse import contents_of
from kernelagent.storage.run_log import LOG

RECORDED = Path(__file__).parents[1] / "tests" / "report" / "rms_norm_residual.events.jsonl"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_LIGHT, _DARK = "--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0"
VIEWS = {
    "light.png": (_LIGHT, "--window-size=1100,5200"),
    "dark.png": (_DARK, "--window-size=1100,5200"),
    "narrow.png": (_LIGHT, "--window-size=500,7600"),
}


def browser() -> str | None:
    """The first browser on the path."""
    return next((result for name in BROWSERS if (result := shutil.which(name))), None)


def screens(program: str, page: Path, out: Path) -> list[Path]:
    """Every view of the page, as files in `out`; raises where the browser fails."""
    made = [out / name for name in VIEWS]
    for file, (scheme, size) in zip(made, VIEWS.values(), strict=True):
        _run(program, page, scheme, size, "--hide-scrollbars", f"--screenshot={file}")
    paper = out / "paper.pdf"
    _run(program, page, _LIGHT, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    return [*made, paper]


def _run(program: str, page: Path, *flags: str) -> None:
    with tempfile.TemporaryDirectory() as profile:
        words = [program, "--headless", "--no-sandbox", "--disable-gpu", *flags]
        words += [f"--user-data-dir={profile}", page.as_uri()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr[-400:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the files")
    parser.add_argument("--run", type=Path, help="a run's folder; a recorded run otherwise")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    log = RECORDED if asked.run is None else asked.run / LOG
    page = asked.out.resolve() / "report.html"
    page.write_text(reports(contents_of(log).events, log.parent)["report.html"], encoding="utf-8")
    program = browser()
    if program is None:
        print(f"no browser: one of {', '.join(BROWSERS)} has to be on the path", file=sys.stderr)
        sys.exit(3)
    for file in screens(program, page, asked.out.resolve()):
        print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
