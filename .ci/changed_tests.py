"""Prints the test files and folders that the changed files need: changed tests, and the mirror of changed sources.

Changed is what differs from a revision (HEAD unless given), committed or not, and what git does not track yet.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent


def mirror_of(changed: str, root: Path = ROOT) -> str | None:
    """The narrowest test file or folder that mirrors one changed file; None: no test mirrors it."""
    path = PurePosixPath(changed)
    if path.parts[0] == "tests":
        runs = path.suffix == ".py" and path.name.startswith("test_")
        place = path if runs else path.parent
        return str(place) if (root / place).exists() else None
    if path.suffix != ".py":
        return "tests/docs" if path.suffix == ".md" else None
    parts = path.parts[1:] if path.parts[0] == "kernelagent" else path.parts
    folder = PurePosixPath("tests", *parts[:-1])
    exact = folder / f"test_{path.stem}.py"
    if (root / exact).is_file():
        return str(exact)
    while folder.parts != ("tests",):
        if (root / folder).is_dir():
            return str(folder)
        folder = folder.parent
    return None


def changed_files(base: str) -> list[str]:
    """Paths below the root, as git has them."""
    words = (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
    texts = [
        subprocess.run(["git", *rest], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for rest in words
    ]
    return [line for text in texts for line in text.splitlines()]


if __name__ == "__main__":
    base = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    wanted = {place for name in changed_files(base) if (place := mirror_of(name)) is not None}
    # A folder covers what lies in it.
    print("\n".join(sorted(w for w in wanted if not any(w.startswith(f"{o}/") for o in wanted))))  # noqa: T201
