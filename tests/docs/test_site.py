"""The documentation as a site, built without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


def test_the_site_has_every_page_a_search_from_disk_and_the_python_names(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, timeout=250)
    for page in (ROOT / "docs").glob("*.md"):
        assert (tmp_path / f"{page.stem}.html").is_file()
    # The offline plugin writes the index as a script, which a page read from disk may load.
    assert "neighbour" in (tmp_path / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "kernelagent.loop.api.optimize" in (tmp_path / "api.html").read_text(encoding="utf-8")
    for page in tmp_path.glob("*.html"):
        assert "fonts.googleapis" not in page.read_text(encoding="utf-8")
