from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.storage.output_file import MARKER, check_writable, default_name, write_atomically

OURS = f'"""A drop-in.\n\n{MARKER} 0.1.0\n"""\n'


def test_a_new_file_holds_the_text_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_atomically(tmp_path / "out.py", "µ = 1\n", force=False)
    assert (tmp_path / "out.py").read_text(encoding="utf-8") == "µ = 1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.py"]


def test_a_file_of_the_users_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("precious = True\n")
    with pytest.raises(UsageError, match="--force"):
        write_atomically(path, "x", force=False)
    assert path.read_text() == "precious = True\n"


def test_the_marker_far_below_the_first_lines_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("\n" * 30 + f"# {MARKER}\n")
    with pytest.raises(UsageError, match="was not written by kernelagent"):
        check_writable(path, force=False)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.py"
    path.write_bytes(b"\xff\xfe\x80" * 100)
    with pytest.raises(UsageError, match="was not written by kernelagent"):
        check_writable(path, force=False)


def test_our_own_file_is_replaced_without_force(tmp_path: Path) -> None:
    path = tmp_path / "out.py"
    write_atomically(path, OURS, force=False)
    write_atomically(path, OURS + "x = 2\n", force=False)
    assert path.read_text().endswith("x = 2\n")


def test_force_overwrites_and_keeps_the_permissions(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("mine\n")
    path.chmod(0o640)
    write_atomically(path, OURS, force=True)
    assert path.read_text() == OURS
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_atomically(tmp_path / "out.py", OURS, force=False)
    finally:
        os.umask(before)
    assert (tmp_path / "out.py").stat().st_mode & 0o777 == 0o644


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    target = tmp_path / "target.py"
    target.write_text(OURS)
    (tmp_path / "link.py").symlink_to(target)
    write_atomically(tmp_path / "link.py", OURS + "new\n", force=False)
    assert (tmp_path / "link.py").is_symlink()
    assert target.read_text() == OURS + "new\n"


@pytest.mark.parametrize("name", ["missing/out.py", "."])
def test_a_place_that_cannot_hold_the_file_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--out"):
        write_atomically(tmp_path / name, "x", force=True)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.py"
    write_atomically(path, OURS, force=False)
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, OURS + "\ud800", force=False)
    assert path.read_text() == OURS
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.py"]


def test_a_name_the_file_system_refuses_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write_atomically(tmp_path / ("x" * 300), "x", force=True)


def test_a_reader_sees_the_old_or_the_new_text_and_nothing_between(tmp_path: Path) -> None:
    path = tmp_path / "out.py"
    texts = {OURS + letter * 200_000 for letter in "ab"}
    write_atomically(path, min(texts), force=False)
    seen: set[str] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(20):
        for text in texts:
            write_atomically(path, text, force=False)
    done.set()
    reader.join()
    assert seen
    assert seen <= texts


def test_a_file_is_written_beside_its_model_under_its_name_and_its_parts() -> None:
    assert default_name(Path("own.py")) == "own_optimized.py"
    assert default_name(Path("own.py"), "head.0") == "own_head_0_optimized.py"
