"""Writes emitted modules: whole or not at all, and never over a file that is the user's own."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from kernelagent.domain.errors import EnvironmentFault, UsageError

MARKER = "Written by kernelagent"
"""Stands in the first lines of every file we write for the user."""
_MARKED_LINES = 10


def check_writable(path: Path, *, force: bool) -> None:
    """Raises `UsageError` when `path` cannot become an output file, or is a file we did not write."""
    try:
        exists, is_folder = path.exists(), path.is_dir()
        has_parent = path.absolute().parent.is_dir()
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}; change --out") from error
    if is_folder:
        raise UsageError(f"{path} is a folder; give the name of a file with --out")
    if not has_parent:
        raise UsageError(f"the folder {path.parent} does not exist; make it, or change --out")
    if exists and not force and not is_ours(path):
        raise UsageError(
            f"{path} exists and was not written by kernelagent; move it away, choose another name "
            f"with --out, or overwrite it with --force"
        )
    _require_new_file(path.absolute().parent, f"{path} cannot be written", "change --out")


def require_folder(folder: Path, option: str) -> None:
    """Make `folder` and see that files can be made in it; raises `UsageError` naming `option`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the folder {folder} cannot be made: {error.strerror or error}; name another with {option}"
        ) from error
    _require_new_file(folder, f"nothing can be written into {folder}", f"change {option}")


def _require_new_file(folder: Path, what: str, advice: str) -> None:
    """Permissions do not tell: a mount may be read-only, a quota used up, and root may do anything."""
    trial = folder / f".kernelagent-{secrets.token_hex(8)}.part"
    try:
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        raise UsageError(f"{what}: {error.strerror or error}; {advice}") from error


def write_atomically(
    path: Path, text: str, *, force: bool, advice: str = "free space there, or change --out"
) -> None:
    """Put `text` at `path` in one step; raises `UsageError` as `check_writable` does.

    A reader, or a crash at any moment, finds the old file or the new one, never a part. A symbolic
    link is followed, and permissions of a file that is replaced are kept. `advice`: what to do where
    the file cannot be written.
    """
    check_writable(path, force=force)
    target = path.resolve()
    try:
        kept = target.stat().st_mode & 0o777 if target.exists() else None
        # Created by `open`, which applies the umask; reading the umask would mean changing it for all threads.
        part = target.parent / f".kernelagent-{secrets.token_hex(8)}.part"
        try:
            with part.open("x", encoding="utf-8", newline="\n") as file:
                if kept is not None:
                    os.fchmod(file.fileno(), kept)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        _sync_folder(target.parent)
    except OSError as error:
        raise EnvironmentFault(f"{path} could not be written: {error}; {advice}") from error


def is_ours(path: Path) -> bool:
    """Whether we wrote the file at `path`; raises `UsageError` where it cannot be read."""
    try:
        with path.open(encoding="utf-8") as file:
            head = [line for _, line in zip(range(_MARKED_LINES), file, strict=False)]
    except UnicodeDecodeError:
        return False
    except OSError as error:
        raise UsageError(f"{path} exists and cannot be read: {error}") from error
    return any(MARKER in line for line in head)


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def default_name(model: Path, part: str | None = None) -> str:
    """What is written for a file, `own_optimized.py`; `part`: the path of its submodule."""
    words = [model.stem, *(() if part is None else (part.replace(".", "_"),))]
    return f"{'_'.join(words)}_optimized.py"
