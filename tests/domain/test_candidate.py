from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.domain.candidate import Candidate, NoCandidate, parse_candidates, parse_reply

CODE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"


def fenced(code: str, language: str = "python") -> str:
    return f"```{language}\n{code}```\n"


def source_of(reply: str) -> str:
    parsed = parse_reply(reply)
    assert isinstance(parsed, Candidate), parsed
    return parsed.source


def why(reply: str) -> str:
    parsed = parse_reply(reply)
    assert isinstance(parsed, NoCandidate), parsed
    return parsed.why


@pytest.mark.parametrize("language", ["python", "py", "", "Python", "python3"])
def test_the_block_that_defines_the_entry_point_is_the_candidate(language: str) -> None:
    assert source_of("I fuse the two loops.\n\n" + fenced(CODE, language)) == CODE


def test_of_two_candidates_the_last_one_counts() -> None:
    older = CODE.replace("pass", "old = 1")
    assert source_of(fenced(older) + "\nBetter:\n" + fenced(CODE)) == CODE


def test_a_trailing_shell_block_is_not_the_candidate() -> None:
    assert source_of(fenced(CODE) + "Run it:\n" + fenced("python run.py\n", "bash")) == CODE


def test_a_block_with_other_code_after_the_candidate_is_ignored() -> None:
    assert source_of(fenced(CODE) + fenced("print('a test')\n")) == CODE


def test_a_complete_candidate_in_an_unclosed_fence_is_taken() -> None:
    assert source_of("```python\n" + CODE) == CODE


def test_an_unclosed_fence_before_another_block_ends_where_that_block_begins() -> None:
    assert source_of("```python\n" + CODE + "```bash\nls\n```\n") == CODE


def test_a_candidate_cut_off_in_the_middle_is_told_so() -> None:
    assert "cut off" in why("```python\n" + CODE + "    def forward(self, x:\n")


def test_code_inside_thinking_tags_is_not_the_candidate() -> None:
    draft = CODE.replace("pass", "draft = True")
    assert source_of(f"<think>\n{fenced(draft)}</think>\n" + fenced(CODE)) == CODE


def test_a_reply_that_is_all_unclosed_thinking_is_void() -> None:
    assert "empty" in why("<think>\n" + fenced(CODE))


def test_a_bare_python_reply_is_a_candidate() -> None:
    assert source_of(CODE) == CODE


def test_a_reply_without_code_is_told_what_to_send() -> None:
    assert "```python" in why("I would tile the loop.")


def test_a_block_without_the_entry_point_is_told_its_name() -> None:
    assert "ModelNew" in why(fenced("def f():\n    return 1\n"))


def test_an_entry_point_named_in_a_comment_or_nested_class_does_not_count() -> None:
    assert isinstance(parse_reply(fenced("# class ModelNew\nx = 1\n")), NoCandidate)


def test_a_fence_of_four_backticks_may_hold_three() -> None:
    inner = CODE + '\nNOTE = """\n```\n"""\n'
    assert source_of("````python\n" + inner + "````\n") == inner


@given(st.text())
def test_no_reply_makes_the_parser_raise(text: str) -> None:
    parsed = parse_reply(text)
    assert isinstance(parsed, Candidate | NoCandidate)


@given(st.text(alphabet=st.characters(exclude_characters="`~<\r", exclude_categories=["Cs"])))
def test_words_around_the_block_never_change_the_candidate(words: str) -> None:
    if "class ModelNew" in words:
        return
    assert source_of(words + "\n" + fenced(CODE) + words) == CODE


OLDER, NEWER = CODE.replace("pass", "old = 1"), CODE.replace("pass", "new = 1")
SEVERAL = fenced(OLDER) + "Or:\n" + fenced(CODE) + "Or:\n" + fenced(NEWER)


def sources_of(reply: str, finish: str = "stop", most: int = 8) -> list[str]:
    parsed = parse_candidates(reply, finish, most)
    return [] if isinstance(parsed, NoCandidate) else [candidate.source for candidate in parsed]


def test_several_files_are_taken_in_their_order_each_once() -> None:
    assert sources_of(SEVERAL + fenced(OLDER)) == [OLDER, CODE, NEWER]


def test_of_more_files_than_asked_for_the_last_ones_count() -> None:
    assert sources_of(SEVERAL, most=2) == [CODE, NEWER]
    assert sources_of(SEVERAL, most=1) == [source_of(SEVERAL)] == [NEWER]


def test_of_a_reply_that_broke_off_the_whole_files_count() -> None:
    begun = SEVERAL + "```python\n" + CODE + "    def forward(self, x:\n"
    for finish in ("stop", "length", "lost", "budget"):
        assert sources_of(begun, finish) == [OLDER, CODE, NEWER]


def test_a_reply_with_one_file_or_none_is_read_as_ever() -> None:
    assert sources_of("```python\n" + CODE) == [CODE]
    assert sources_of(CODE) == [CODE]
    assert sources_of("no code") == sources_of(SEVERAL, "refused") == []
    none = parse_candidates("no code", most=3)
    assert isinstance(none, NoCandidate)
    assert none.why == why("no code")
