"""Removes a folder that a hostile process filled: however deep it is nested, whatever its permissions."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def sweep(path: Path | str) -> None:
    """Remove the folder and everything in it; does nothing where there is none.

    Subfolders are moved up and emptied one by one, so neither nesting depth nor path length is a limit.
    Follows no link. What cannot be removed is left where it is.
    """
    top = os.fspath(path)
    try:
        here = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        _empty(here)
    finally:
        os.close(here)
    with contextlib.suppress(OSError):
        Path(top).rmdir()


def _empty(top: int) -> None:
    number = 0
    while True:
        folders = _without_files(top)
        if not folders:
            return
        progress = False
        for name in folders:
            moved = _lift(name, top, number)
            number += moved
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=top)
                progress = True
            progress = progress or moved > 0
        if not progress:
            return


def _lift(name: str, top: int, number: int) -> int:
    """Empty the folder `name` of `top`: its files go, its folders become `top`'s; returns how many."""
    with contextlib.suppress(OSError):
        os.chmod(name, 0o700, dir_fd=top)
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    except OSError:
        return 0
    moved = 0
    try:
        for child in _without_files(inner):
            with contextlib.suppress(OSError):
                # A folder that changes its parent must be writable itself.
                os.chmod(child, 0o700, dir_fd=inner)
                os.rename(
                    child,
                    f"swept.{number + moved}.{os.urandom(4).hex()}",
                    src_dir_fd=inner,
                    dst_dir_fd=top,
                )
                moved += 1
    finally:
        os.close(inner)
    return moved


def _without_files(folder: int) -> list[str]:
    """Remove what is no folder in it; returns the folders."""
    folders: list[str] = []
    with os.scandir(folder) as entries:
        result = [(entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
    for name, mode in result:
        if stat.S_ISDIR(mode):
            folders.append(name)
        else:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
    return folders
