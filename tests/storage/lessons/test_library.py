from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.storage.lessons.distil import Distilled, distil
from kernelagent.storage.lessons.library import Library
from tests.storage.lessons.runs_by_hand import (
    ELSEWHERE,
    POWER,
    RACE,
    accepted,
    rejected,
    run_of,
    turn,
)


def teaching(name: str = "run-1", **options) -> Distilled:
    return distil(run_of(turn(0, rejected("compile_error", POWER)), name=name, **options))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library.at(tmp_path / "memory", make=True)


def files(library: Library) -> dict[str, bytes]:
    result = (path for path in library.path.rglob("*") if path.is_file())
    return {str(path.relative_to(library.path)): path.read_bytes() for path in result}


def test_what_is_written_is_what_is_read(library):
    state = run_of(
        turn(0, rejected("data_race", RACE), said='A "quoted" \\ word,\nand \x7f, ü.'),
        turn(1, accepted(2.0), "repair", 0, said='A "quoted" \\ word,\nand \x7f, ü.'),
    )
    result = distil(state)
    learnt = library.learn(result)
    assert set(learnt.new) == {item.id for item in result.lessons}
    assert set(library.lessons()) == set(result.lessons)


def test_learning_a_run_twice_changes_nothing(library):
    library.learn(teaching())
    before = files(library)
    again = library.learn(teaching())
    assert (again.new, again.more) == ((), ())
    assert files(library) == before


def test_the_same_lesson_of_two_runs_is_one_file_with_both_as_evidence(library):
    library.learn(teaching("run-1"))
    assert library.learn(teaching("run-2")).more
    (lesson,) = library.lessons()
    assert [item.run for item in lesson.evidence] == ["run-1", "run-2"]


def test_another_device_has_a_lesson_of_its_own(library):
    library.learn(teaching())
    library.learn(teaching("run-2", device=ELSEWHERE))
    assert [item.device for item in library.lessons()] == ["virtual-sm_90", "virtual-sm_80"] or [
        item.device for item in library.lessons()
    ] == ["virtual-sm_80", "virtual-sm_90"]


def test_an_edit_and_a_comment_survive_further_evidence(library):
    library.learn(teaching())
    (lesson,) = library.lessons()
    path = library.lesson(lesson.id)[1]
    text = path.read_text().replace(lesson.words, "use next_power_of_2").replace("false", "true", 1)
    path.write_text(f"# mine\nnote = 'keep'\n{text}")
    library.learn(teaching("run-2"))
    (after,) = library.lessons()
    assert (after.words, after.off, after.stands) == ("use next_power_of_2", True, False)
    assert len(after.evidence) == 2
    assert path.read_text().startswith("# mine\nnote = 'keep'\n")


@pytest.mark.parametrize("how", ["forget", "rm"])
def test_what_was_deleted_stays_deleted(library, how):
    library.learn(teaching())
    (lesson,) = library.lessons()
    if how == "forget":
        library.forget(lesson.id)
    else:
        library.lesson(lesson.id)[1].unlink()
    assert library.learn(teaching("run-2")).new == ()
    assert library.lessons() == ()


def test_evidence_that_was_deleted_stays_deleted(library):
    library.learn(teaching("run-1"))
    library.learn(teaching("run-2"))
    (lesson,) = library.lessons()
    path = library.lesson(lesson.id)[1]
    head, first, _ = path.read_text().split("\n[[evidence]]\n")
    path.write_text(f"{head}\n[[evidence]]\n{first}")
    assert library.learn(teaching("run-2")).more == ()
    assert [item.run for item in library.lessons()[0].evidence] == ["run-1"]


def test_a_kill_between_the_file_and_the_list_doubles_nothing(library):
    library.learn(teaching())
    (library.path / "written.txt").unlink()
    library.learn(teaching())
    assert [len(item.evidence) for item in library.lessons()] == [1]


def test_a_program_that_is_accepted_later_speaks_against_the_rule_learnt_from_it(library):
    library.learn(distil(run_of(turn(0, rejected("data_race", RACE), program=7))))
    later = distil(run_of(turn(0, accepted(2.0), program=7), name="run-2"))
    learnt = library.learn(later)
    rule = next(item for item in library.lessons() if item.kind == "avoid")
    assert (rule.pros, rule.cons, rule.stands) == (1, 1, False)
    assert learnt.against == (rule.id,)


def test_runs_that_end_together_lose_nothing(library):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(library.learn, [teaching(f"run-{n}") for n in range(8)]))
    (lesson,) = library.lessons()
    assert {item.run for item in lesson.evidence} == {f"run-{n}" for n in range(8)}


def test_a_spoilt_file_is_named(library):
    library.learn(teaching())
    path = library.lesson(library.lessons()[0].id)[1]
    path.write_text(path.read_text().replace("supports = true", "supports = 7"))
    with pytest.raises(UsageError, match=path.name):
        library.lessons()


def test_a_library_of_another_version_and_a_folder_of_something_else_are_refused(tmp_path, library):
    (library.path / "library.toml").write_text("version = 99\n")
    with pytest.raises(UsageError, match="99"):
        Library.at(library.path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        Library.at(tmp_path / "other", make=True)
    with pytest.raises(UsageError, match="no memory"):
        Library.at(tmp_path / "nowhere")
