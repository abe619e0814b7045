"""The kept beginning and end of what a process prints."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelagent.tools.sandbox.capture import HEAD_BYTES, TAIL_BYTES, Capture
from tests.lanes import examples

SIZES = st.lists(st.integers(0, 40_000), max_size=8)


def _printed(sizes):
    """As many bytes as `sizes` say, in such chunks, no two near places alike."""
    total = sum(sizes)
    text = "".join(f"{number:07d}\n" for number in range(total // 8 + 1)).encode()[:total]
    chunks, at = [], 0
    for size in sizes:
        chunks.append(text[at : at + size])
        at += size
    return text, chunks


@settings(max_examples=examples(60))
@given(SIZES)
def test_the_kept_text_is_the_true_beginning_and_the_true_end(sizes):
    text, chunks = _printed(sizes)
    capture = Capture.create()
    for chunk in chunks:
        capture.append(chunk)
    kept = capture.text()
    if len(text) <= HEAD_BYTES + TAIL_BYTES:
        assert kept == text.decode()
    else:
        gap = len(text) - HEAD_BYTES - TAIL_BYTES
        head, tail = text[:HEAD_BYTES].decode(), text[-TAIL_BYTES:].decode()
        assert kept == f"{head}\n[... {gap} bytes left out ...]\n{tail}"
    assert capture.flooded == (len(text) > HEAD_BYTES + TAIL_BYTES)
    assert capture.total == len(text)
    capture.close()


def test_bytes_that_are_no_text_are_shown_as_replacements():
    capture = Capture.create()
    capture.append(b"\xff\xfeok")
    assert capture.text() == "\ufffd\ufffdok"
    capture.close()
