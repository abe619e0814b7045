"""`kernelagent apply`: the emitted module of a run goes beside the user's file, or onto a branch.

With a commit, git's own index, checkout and HEAD stay as they are: the commit is built from the tip
of the current branch in a separate index, and one reference is set.
"""

from __future__ import annotations

import ast
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernelagent.domain.errors import EnvironmentFault, UsageError
from kernelagent.domain.problem import ProblemFacts, ProblemSpec
from kernelagent.domain.replies.parsing import parse
from kernelagent.storage.output_file import default_name, is_ours, write_atomically
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.run_state import RunState, fold

if TYPE_CHECKING:
    from git import Repo


@dataclass(frozen=True)
class Applied:
    """Where the module went."""

    path: str
    """The file, as it stands in the user's folder or on the branch."""
    run: str
    branch: str | None = None
    commit: str | None = None
    submodule: str | None = None
    """The part of the model that it is for; None: the whole module."""
    schema: str = "kernelagent.applied/1"


def apply(
    given: Path | None, folder: RunFolder, *, branch: str | None, commit: bool, force: bool
) -> Applied:
    """Write `<stem>_optimized.py` beside the user's file, or commit it there on `branch`.

    `given`: the user's file; None: the one that the run was about. Raises `UsageError` where something of the
    user's would be lost or the run is about another file.
    """
    state = fold(read_events(folder.log))
    model = given or _file_of(state)
    if not model.is_file():
        raise UsageError(f"there is no file {model}")
    text = _module_of(folder)
    if not force:
        _require_same_problem(model, state)
    target = model.with_name(_name_beside(model, state))
    if not commit:
        if branch is not None:
            raise UsageError(f"--branch {branch} names where to commit; add --commit")
        write_atomically(target, text, force=force)
        return Applied(str(target), folder.id, submodule=_part_of(state))
    done = _commit(_repository(model), model, target, text, branch, folder)
    return replace(done, submodule=_part_of(state))


def message(text: str) -> str:
    """The commit's message: the certificate that stands as docstring in the emitted file."""
    spoken = ast.get_docstring(parse(text)) or "A drop-in module."
    subject, _, rest = spoken.partition("\n")
    plain = subject.replace("`", "").rstrip(".")
    return f"{plain[:72]}\n\n{rest.strip()}\n"


def _module_of(folder: RunFolder) -> str:
    path = folder.path / "module.py"
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            f"run {folder.id} wrote no module; `kernelagent show {folder.id}` says what it came to"
        ) from error


def _file_of(state: RunState) -> Path:
    """The user's file, or the model's whose part was optimized."""
    problem = _whole_of(state)
    if problem is None or problem.path is None:
        named = "an unknown problem" if problem is None else problem.label
        raise UsageError(
            f"run {state.run} was about {named}, which is no file; name the file to put the module beside"
        )
    return Path(problem.path)


def _whole_of(state: RunState) -> ProblemSpec | None:
    return state.problem if state.problem is None else state.problem.whole or state.problem


def _part_of(state: RunState) -> str | None:
    return None if state.problem is None else state.problem.submodule


def _name_beside(model: Path, state: RunState) -> str:
    """Each part of a model has a file of its own, which `--out` names."""
    out = state.config.get("out")
    if _part_of(state) is not None and out is not None:
        return Path(str(out)).name
    return default_name(model)


def _require_same_problem(model: Path, state: RunState) -> None:
    whole = _whole_of(state)
    if _part_of(state) is not None and whole is not None and whole.path is not None:
        # The certificate speaks of the part, whose class may be a library's; its guard compares the weights' names.
        if Path(whole.path).resolve() != model.resolve():
            raise UsageError(
                f"run {state.run} was about {_part_of(state)} of {whole.path}, not about {model}; name that file, or "
                f"insist with --force"
            )
        return
    facts = state.facts
    if facts is None or not _is_about(facts, model.read_text(encoding="utf-8")):
        raise UsageError(
            f"run {state.run} was made for another text than {model} holds now, so its certificate "
            f"does not speak of this file; optimize it again, or insist with --force"
        )


def _is_about(facts: ProblemFacts, text: str) -> bool:
    # A class of another file is shown by its own source only.
    return facts.source.strip() in text


def _repository(model: Path) -> Repo:
    try:
        from git import InvalidGitRepositoryError, Repo
    except ImportError as error:
        raise EnvironmentFault("--commit needs git and GitPython, and one is missing") from error
    try:
        repo = Repo(model.resolve().parent, search_parent_directories=True)
    except InvalidGitRepositoryError as error:
        raise UsageError(
            f"{model} is in no git repository; leave --commit out, or run git init"
        ) from error
    if repo.bare or repo.working_tree_dir is None:
        raise UsageError(f"the repository of {model} has no working tree")
    if not repo.head.is_valid():
        raise UsageError(f"the repository of {model} has no commit yet; make the first one")
    return repo


def _commit(
    repo: Repo, model: Path, target: Path, text: str, branch: str | None, folder: RunFolder
) -> Applied:
    from git import GitCommandError

    top = Path(str(repo.working_tree_dir)).resolve()
    inside = target.resolve().relative_to(top).as_posix()
    _require_clean(repo, model.resolve().relative_to(top).as_posix(), inside)
    name = branch or f"kernelagent/{folder.id}"
    try:
        repo.git.check_ref_format("--branch", name)
    except GitCommandError as error:
        raise UsageError(f"--branch {name} is no name for a branch") from error
    reference = f"refs/heads/{name}"
    parent = repo.head.commit.hexsha
    _require_not_there(repo, name, _value_of(repo, reference), inside, text)
    _require_free(repo, name, reference, parent)
    try:
        made = _built(repo, parent, inside, text)
        # The old value is given, so that a branch made in between is not lost.
        repo.git.update_ref(reference, made, _value_of(repo, reference) or "0" * len(made))
    except GitCommandError as error:
        raise EnvironmentFault(f"git refused the commit: {error.stderr.strip()}") from error
    return Applied(inside, folder.id, name, made)


def _require_clean(repo: Repo, model: str, target: str) -> None:
    """Refuse uncommitted changes of the module's file or the target, and a target that is not ours."""
    tracked = repo.git.ls_files("--", model)
    if not tracked:
        raise UsageError(f"{model} is not committed yet: commit it first, then apply --commit")
    path = Path(str(repo.working_tree_dir)) / target
    changed = repo.git.status("--porcelain", "--", model, target).splitlines()
    # What `optimize` wrote there itself, and has not been committed, is no work of the user's.
    dirty = [row[3:] for row in changed if row and not (row.startswith("??") and is_ours(path))]
    if dirty:
        raise UsageError(
            f"dirty: {', '.join(dirty)} holds changes that are not committed; commit or stash them "
            f"first, nothing was done"
        )
    if path.exists() and not is_ours(path):
        raise UsageError(f"{target} was not written by kernelagent; move it away first")


def _require_not_there(repo: Repo, name: str, tip: str | None, inside: str, text: str) -> None:
    """Refuse to commit what the branch holds already, or where the branch is new what the checkout holds."""
    holds, where = (tip, name) if tip is not None else ("HEAD", "the commit that is checked out")
    if not repo.git.ls_tree(holds, "--", inside):
        return
    there = repo.git.cat_file("blob", f"{holds}:{inside}", strip_newline_in_stdout=False)
    if there == text:
        raise UsageError(f"{where} has this module already, as {inside}; nothing was done")


def _require_free(repo: Repo, name: str, reference: str, parent: str) -> None:
    used = [
        row.removeprefix("branch ")
        for row in repo.git.worktree("list", "--porcelain").splitlines()
        if row.startswith("branch ")
    ]
    if reference in used:
        raise UsageError(
            f"{name} is checked out, and committing there would move your checkout; name another "
            f"branch with --branch and merge it"
        )
    tip = _value_of(repo, reference)
    if tip is not None and tip != parent:
        raise UsageError(f"the branch {name} exists and has gone elsewhere; choose another name")


def _value_of(repo: Repo, reference: str) -> str | None:
    result = repo.git.for_each_ref("--format=%(refname) %(objectname)", reference)
    for row in result.splitlines():
        name, _, sha = row.partition(" ")
        if name == reference:
            return str(sha)
    return None


def _built(repo: Repo, parent: str, inside: str, text: str) -> str:
    """The commit, from an index in a temporary folder; the user's index is not touched."""
    with tempfile.TemporaryDirectory(prefix="kernelagent-index-") as folder:
        content = Path(folder, "module.py")
        content.write_text(text, encoding="utf-8", newline="\n")
        with repo.git.custom_environment(GIT_INDEX_FILE=str(Path(folder, "index"))):
            repo.git.read_tree(parent)
            blob = repo.git.hash_object("-w", "--no-filters", str(content))
            repo.git.update_index("--add", "--cacheinfo", f"100644,{blob},{inside}")
            tree = repo.git.write_tree()
        written = Path(folder, "message")
        written.write_text(message(text), encoding="utf-8")
        return str(repo.git.commit_tree(tree, "-p", parent, "-F", str(written)))
