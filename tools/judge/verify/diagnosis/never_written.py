"""Whether wrong elements are such as nobody has written, or arithmetic has made NaN."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch

from kernelagent.tools.candidate_runner.unwritten import NAN
from kernelagent.tools.judge.verify.diagnosis.error_locations import restrictions
from kernelagent.tools.judge.verify.diagnosis.look import Found, Look, plain, where_of, wide

_Origin = Literal["computed", "fresh", "either"]


def unwritten(look: Look) -> Iterator[Found]:
    values = wide(look.candidate[look.wrong])
    item = values[0]
    if bool(look.candidate.isnan().all()):
        # Without a place that says so, nothing tells fresh memory from what inf - inf left.
        yield Found(
            "all_nan",
            "the whole output is NaN: made by arithmetic (as inf - inf), or never written",
        )
        return
    if values.numel() < 2 or not bool(((values == item) | (values.isnan() & item.isnan())).all()):
        return
    poison = torch.tensor(look.evidence.poison).to(look.candidate.dtype).to(values)
    poisoned = bool((poison == item).any())
    if bool(item.isnan()):
        yield _found_nan(_origin_of_nan(look.candidate[look.wrong]), where_of(look))
    elif poisoned:
        yield _never_written(where_of(look), plain(item.item()))
    elif float(item) == 0:
        if bool((look.candidate == 0).all()):
            yield Found("all_zero", "the whole output is zero")
        elif where := where_of(look):
            yield Found("unwritten", f"zero in {where}", {"value": 0})
    elif bool((look.candidate == look.candidate.reshape(-1)[0]).all()):
        yield Found("constant", f"the whole output is {float(item):.6g}")


def _never_written(where: str | None, value: Any) -> Found:
    words = f"never written: {where}" if where else "those elements were never written"
    return Found("unwritten", words, {"value": value})


def _found_nan(origin: _Origin, where: str | None) -> Found:
    if origin == "computed":
        words = "the NaN comes from arithmetic"
        return Found("computed_nan", f"{words}: {where}" if where else words)
    if origin == "fresh":
        return _never_written(where, "nan")
    words = "NaN made by arithmetic (as inf - inf), or never written"
    return Found("nan_of_either", f"{words}: {where}" if where else words)


def _origin_of_nan(values: torch.Tensor) -> _Origin:
    """Whether NaN was computed or lay in fresh memory, by its bits: a computed one has a sign, or all bits but the sign.

    Fresh memory holds torch's own NaN on `virtual` and 0x7fff repeated on `cuda`; in 16 bits the latter is the NaN that a
    GPU computes, and eight bits have only one.
    """
    size = values.element_size()
    if size == 1 or values.is_complex():
        return "either"
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    bits = values.contiguous().view(kind)
    of_torch = torch.tensor(math.nan, dtype=values.dtype).view(kind)
    repeated = torch.full((size // 2,), NAN, dtype=torch.int16).view(kind)[0]
    if size == 2 and bool((bits == repeated).all()):
        return "either"
    fresh = (bits == of_torch) | (bits == repeated)
    return "fresh" if bool(fresh.all()) else "computed"


def partly_unwritten(look: Look) -> Iterator[Found]:
    """Beside other errors, a region that holds the NaN of fresh memory."""
    if not look.candidate.is_floating_point():
        return
    odd = look.candidate.isnan() & ~look.expected.isnan()
    if not bool(odd.any()) or _origin_of_nan(look.candidate[odd]) != "fresh":
        return
    if where := " and ".join(along.named(odd.dim()) for along in restrictions(odd)):
        words = f"never written: {where}; the others are wrong as well"
        yield Found("unwritten", words, {"value": "nan"})
