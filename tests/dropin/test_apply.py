"""`apply`: beside the user's file, or on a branch of their repository, and nothing of theirs moves."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import ProblemDescribed, RunStarted
from kernelagent.domain.problem import ProblemSpec
from kernelagent.dropin.apply import apply
from kernelagent.storage.run_log import EventLog, RunFolder
from tests.dropin.emitted import VIRTUAL, Block, facts_of, text_for

SOURCE = facts_of(Block()).source


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "runs", "toy", now=time.time())
    log = EventLog(folder)
    log.publish(RunStarted(folder.id, ProblemSpec(path="toy.py"), {}, {}))
    log.publish(ProblemDescribed(facts_of(Block()), VIRTUAL, "none"))
    log.close()
    (folder.path / "module.py").write_text(text_for(), encoding="utf-8")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A committed file in a repository with work that is staged, changed and not tracked."""
    top = tmp_path / "project"
    (top / "nets").mkdir(parents=True)
    path = top / "nets" / "toy.py"
    path.write_text(SOURCE, encoding="utf-8")
    (top / "other.py").write_text("a = 1\n", encoding="utf-8")
    for words in (
        ["init", "-q", "-b", "main"],
        ["config", "user.email", "user@example.org"],
        ["config", "user.name", "A User"],
        ["add", "-A"],
        ["commit", "-q", "-m", "first"],
    ):
        git(top, *words)
    (top / "other.py").write_text("a = 2\n", encoding="utf-8")
    (top / "staged.py").write_text("b = 1\n", encoding="utf-8")
    git(top, "add", "staged.py")
    (top / "new.py").write_text("c = 1\n", encoding="utf-8")
    return path


def git(top: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(top), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def state_of(top: Path) -> tuple[str, ...]:
    files = {str(p): p.read_bytes() for p in sorted(top.rglob("*.py"))}
    asked = (["status", "--porcelain"], ["rev-parse", "HEAD"], ["symbolic-ref", "HEAD"])
    return (*(git(top, *words) for words in asked), git(top, "diff", "--cached"), str(files))


def test_the_module_is_written_beside_the_file(model: Path, run: RunFolder) -> None:
    done = apply(model, run, branch=None, commit=False, force=False)
    assert Path(done.path) == model.with_name("toy_optimized.py")
    assert Path(done.path).read_text(encoding="utf-8") == text_for()


def test_a_commit_holds_the_module_alone_and_the_certificate_as_its_message(
    model: Path, run: RunFolder
) -> None:
    top = model.parent.parent
    before = state_of(top)
    done = apply(model, run, branch=None, commit=True, force=False)
    assert state_of(top) == before
    assert done.branch == f"kernelagent/{run.id}"
    assert git(top, "show", f"{done.branch}:nets/toy_optimized.py") + "\n" == text_for()
    assert git(top, "diff", "--name-only", "HEAD", done.branch) == "nets/toy_optimized.py"
    assert git(top, "log", "-1", "--format=%P %an", done.branch) == (
        f"{git(top, 'rev-parse', 'HEAD')} A User"
    )
    message = git(top, "log", "-1", "--format=%B", done.branch)
    assert message.startswith("A drop-in for Block")
    assert "Not verified:" in message
    git(top, "merge", "-q", "--ff-only", done.branch)
    assert (top / "nets" / "toy_optimized.py").is_file()


def test_a_named_branch_is_used_and_not_used_twice(model: Path, run: RunFolder) -> None:
    done = apply(model, run, branch="faster", commit=True, force=False)
    assert done.branch == "faster"
    top = model.parent.parent
    before = state_of(top), git(top, "rev-parse", "faster")
    with pytest.raises(UsageError, match=r"faster has this module already, as nets/toy_optimized"):
        apply(model, run, branch="faster", commit=True, force=False)
    assert (state_of(top), git(top, "rev-parse", "faster")) == before


def test_a_module_that_was_merged_is_not_committed_once_more(model: Path, run: RunFolder) -> None:
    top = model.parent.parent
    apply(model, run, branch="faster", commit=True, force=False)
    git(top, "merge", "-q", "--ff-only", "faster")
    with pytest.raises(UsageError, match="faster has this module already"):
        apply(model, run, branch="faster", commit=True, force=False)
    with pytest.raises(UsageError, match="the commit that is checked out has this module already"):
        apply(model, run, branch="again", commit=True, force=False)
    assert git(top, "branch", "--list", "again") == ""


def test_a_branch_with_other_work_on_it_is_refused(model: Path, run: RunFolder) -> None:
    top = model.parent.parent
    apply(model, run, branch="faster", commit=True, force=False)
    (run.path / "module.py").write_text(text_for() + "# another\n", encoding="utf-8")
    with pytest.raises(UsageError, match="faster exists and has gone elsewhere"):
        apply(model, run, branch="faster", commit=True, force=False)
    assert git(top, "show", "faster:nets/toy_optimized.py") + "\n" == text_for()


@pytest.mark.parametrize(
    ("name", "said"), [("main", "checked out"), ("a..b", "no name"), ("-x", "no name")]
)
def test_a_branch_that_cannot_take_it_is_refused(
    model: Path, run: RunFolder, name: str, said: str
) -> None:
    top = model.parent.parent
    before = state_of(top)
    with pytest.raises(UsageError, match=said):
        apply(model, run, branch=name, commit=True, force=False)
    assert state_of(top) == before


def test_changes_that_are_not_committed_are_refused(model: Path, run: RunFolder) -> None:
    model.write_text(SOURCE + "# mine\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"dirty: nets/toy\.py"):
        apply(model, run, branch="faster", commit=True, force=False)
    assert git(model.parent, "branch", "--list", "faster") == ""


@pytest.mark.long
def test_a_changed_target_is_refused_and_our_own_uncommitted_copy_is_not(
    model: Path, run: RunFolder
) -> None:
    target = model.with_name("toy_optimized.py")
    target.write_text("mine = 1\n", encoding="utf-8")
    with pytest.raises(UsageError, match="dirty"):
        apply(model, run, branch="faster", commit=True, force=False)
    with pytest.raises(UsageError, match="not written by kernelagent"):
        apply(model, run, branch=None, commit=False, force=False)
    target.write_text(text_for(), encoding="utf-8")
    assert apply(model, run, branch="faster", commit=True, force=False).commit is not None


def test_a_file_that_is_not_the_one_optimized_is_refused(model: Path, run: RunFolder) -> None:
    model.write_text("class Other: ...\n", encoding="utf-8")
    with pytest.raises(UsageError, match="another text"):
        apply(model, run, branch=None, commit=False, force=False)
    assert apply(model, run, branch=None, commit=False, force=True).branch is None


def test_what_cannot_be_committed_is_said(tmp_path: Path, model: Path, run: RunFolder) -> None:
    alone = tmp_path / "toy.py"
    alone.write_text(SOURCE, encoding="utf-8")
    with pytest.raises(UsageError, match="no git repository"):
        apply(alone, run, branch=None, commit=True, force=False)
    with pytest.raises(UsageError, match="add --commit"):
        apply(model, run, branch="x", commit=False, force=False)
    untracked = model.with_name("fresh.py")
    untracked.write_text(SOURCE, encoding="utf-8")
    with pytest.raises(UsageError, match="not committed yet"):
        apply(untracked, run, branch=None, commit=True, force=False)
    (run.path / "module.py").unlink()
    with pytest.raises(UsageError, match="wrote no module"):
        apply(model, run, branch=None, commit=False, force=False)


def _run_over_a_part(tmp_path: Path, model: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "runs", "toy", now=time.time())
    part = ProblemSpec(
        bundle="bundle", module="norm", submodule="norm", whole=ProblemSpec(path=str(model))
    )
    log = EventLog(folder)
    log.publish(RunStarted(folder.id, part, {"out": "toy_norm_optimized.py"}, {}))
    log.publish(ProblemDescribed(facts_of(Block()), VIRTUAL, "none"))
    log.close()
    (folder.path / "module.py").write_text(text_for(), encoding="utf-8")
    return folder


def test_a_part_of_a_model_is_put_beside_the_models_file_under_its_own_name(tmp_path: Path) -> None:
    model = tmp_path / "toy.py"
    model.write_text("# its class is a library's: nothing of it stands here\n", encoding="utf-8")
    run = _run_over_a_part(tmp_path, model)
    for given in (None, model):
        done = apply(given, run, branch=None, commit=False, force=False)
        assert done.path == str(tmp_path / "toy_norm_optimized.py")
        assert done.submodule == "norm"
    assert (tmp_path / "toy_norm_optimized.py").read_text(encoding="utf-8") == text_for()


def test_a_part_is_not_put_beside_another_models_file(tmp_path: Path) -> None:
    model, other = tmp_path / "toy.py", tmp_path / "other.py"
    for path in (model, other):
        path.write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match=r"was about norm of .*toy\.py, not about .*other\.py"):
        apply(other, _run_over_a_part(tmp_path, model), branch=None, commit=False, force=False)


def test_a_live_modules_run_asks_beside_which_file_it_is_to_be_put(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", "toy", now=time.time())
    log = EventLog(folder)
    log.publish(RunStarted(folder.id, ProblemSpec(bundle="bundle", module="Toy"), {}, {}))
    log.close()
    with pytest.raises(UsageError, match="name the file to put the module beside"):
        apply(None, folder, branch=None, commit=False, force=False)
