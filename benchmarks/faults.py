"""Small faults planted into honest kernels, one at a time: how many does the judge catch?

    python -m benchmarks.faults [--each 20] [--write FILE]

Faults are edits that a hurried author makes: a mask, a bound, a stride, an operator, a constant, a
type, the order of two arguments. An edit that changes no result is declared equivalent beforehand.
"""

from __future__ import annotations

import argparse
import ast
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.queries.exclusive_gpu import Judges
from kernelagent.loop.run import HERE
from kernelagent.loop.turn_outcome import Evaluator
from kernelagent.tools.corpus.fixture import honest_kernel, problem_path

KERNELS = tuple(
    """relu_affine row_softmax layer_norm row_sum linear_gelu half_product masked_softmax
    batch_norm_eval running_mean in_place""".split()
)
EACH = 20


@dataclass(frozen=True)
class Mistake:
    """A way to go wrong: every match of `pattern`, one at a time, becomes `replacement`."""

    name: str
    pattern: str
    replacement: str


@dataclass(frozen=True)
class Fault:
    """One edit of one kernel."""

    kernel: str
    mistake: str
    before: str
    """The line as it was."""
    after: str
    source: str

    @property
    def equivalent(self) -> str | None:
        """Why this edit changes no result, None where it does."""
        return EQUIVALENT.get((self.kernel, self.after.strip()))


MISTAKES = (
    Mistake("store without its mask", r"(tl\.store\(.*), mask=[^\n]+\)(?=\n)", r"\1)"),
    Mistake("load without its mask", r"(tl\.load\([^,\n]+), mask=(?:[^()\n]|\([^()\n]*\))+\)", r"\1)"),
    Mistake("too few programs", r"triton\.cdiv\(([^,]+), ([^)]+)\)", r"(\1 // \2)"),
    Mistake("bound one too small", r"< (n|width|columns|size|rows|inner)\b(?! -)", r"< \1 - 1"),
    Mistake("term left out", r" \+ (b|eps|tl\.load\(b_ptr[^\n]*)(?=[,)\n])", r""),
    Mistake("factor left out", r" \* (w|scale)\b", r""),
    Mistake("wrong sign", r"(\w|\)) - (mean|tl\.|d\b)", r"\1 + \2"),
    Mistake("wrong operator", r"(\w|\)) / (tl\.|width|columns)", r"\1 * \2"),
    Mistake("wrong stride", r"\* (width|columns|size|inner) \+", r"* (\1 + 1) +"),
    Mistake("index one too high", r"= tl\.arange\(0, (\w+)\)", r"= 1 + tl.arange(0, \1)"),
    Mistake("block overlaps the next", r"program_id\((\d)\) \* (\w+) \+", r"program_id(\1) * (\2 - 1) +"),
    Mistake("wrong fill", r"other=0\.0", r"other=1.0"),
    Mistake("wrong fill", r'other=float\("-inf"\)', r"other=0.0"),
    Mistake("sum for maximum", r"tl\.max\(", r"tl.sum("),
    Mistake("maximum for sum", r"tl\.sum\(", r"tl.max("),
    Mistake("only the last block", r"total \+= ", r"total = "),
    Mistake("only the last block", r"tl\.dot\(x, w, total", r"tl.dot(x, w"),
    Mistake("first block skipped", r"range\(0, (\w+), (\w+)\)", r"range(\2, \1, \2)"),
    Mistake("last block skipped", r"range\(0, (\w+), (\w+)\)", r"range(0, \1 - \2, \2)"),
    Mistake("narrow accumulator", r"dtype=tl\.float32", r"dtype=tl.float16"),
    Mistake("narrow values", r"tl\.load\((x_ptr[^\n]*)\)(?=\n)", r"tl.load(\1).to(tl.float16)"),
    Mistake("narrow products", r'"ieee"', r'"tf32"'),
    Mistake("wrong constant", r"0\.7071067811865476", r"0.7171067811865476"),
    Mistake("wrong constant", r"(?<=y = )0\.5", r"0.51"),
    Mistake("arguments swapped", r"(self\.weight|weight|norm\.weight), (self\.bias|bias|norm\.bias)", r"\2, \1"),
    Mistake("arguments swapped", r"\(x, mean, var,", r"(x, var, mean,"),
    Mistake("arguments swapped", r"x, mean, var, norm", r"x, var, mean, norm"),
    Mistake("half a block", r"BLOCK=triton\.next_power_of_2\((.+?)\)\)", r"BLOCK=triton.next_power_of_2(\1) // 2)"),
    Mistake("axes swapped", r"tl\.program_id\(1\)", r"tl.program_id(0)"),
    Mistake("other base", r"tl\.exp\(", r"tl.exp2("),
    Mistake("no maximum subtracted", r"tl\.exp\(x - tl\.max\(x, axis=0\)\)", r"tl.exp(x)"),
    Mistake("no root", r"tl\.sqrt\(", r"("),
    Mistake("wrong threshold", r"tl\.maximum\(x, 0\.0\)", r"tl.maximum(x, 1e-2)"),
    Mistake("wrong comparison", r"y > 0,", r"y >= 1e-3,"),
    Mistake("smallest for largest", r"tl\.argmax\(", r"tl.argmin("),
    Mistake("wrong row", r"row = tl\.program_id\(0\)", r"row = tl.program_id(0) ^ 1"),
    Mistake("wrong column", r"i % width", r"i // width"),
    Mistake("another eps", r"norm\.eps", r"1e-3"),
    Mistake("decay of another order", r"mul_\(0\.9\)\.add_\(0\.1", r"mul_(0.1).add_(0.9"),
    Mistake("mean over the other axis", r"x\.mean\(0\)", r"x.mean(1)[: x.shape[1]].mean()"),
    Mistake("update left out", r"        self\.running_mean\.mul_[^\n]*\n", r""),
    Mistake("result in other units", r"x\.mean\(\)", r"x.sum()"),
    Mistake("scale left out", r", scale, columns", r", 1.0, columns"),
    Mistake("wrong grid", r"\[\(rows,\)\]", r"[(rows - 1,)]"),
    Mistake("wrong grid", r"\[\(x\.shape\[0\],\)\]", r"[(x.shape[0] - 1,)]"),
    Mistake("bound one too large", r"< (n|width|columns|size|rows|inner)\b(?! [-+])", r"< \1 + 1"),
    Mistake("first program skipped", r"tl\.program_id\(0\)", r"(tl.program_id(0) + 1)"),
    Mistake("stored one too far", r"tl\.store\((\w+_ptr) \+", r"tl.store(\1 + 1 +"),
    Mistake("loaded one too far", r"tl\.load\((\w+_ptr) \+", r"tl.load(\1 + 1 +"),
    Mistake("result rounded", r"(tl\.store\(.*, )(total|y|tl\.sum\(total, axis=0\)|tl\.maximum\(x, 0\.0\) \* w \+ b|e / tl\.sum\(e, axis=0\))(, mask|\)\n)", r"\1(\2).to(tl.bfloat16)\3"),
    Mistake("input returned", r"return out\n", r"return x\n"),
    Mistake("other output type", r"dtype=(torch\.int64|torch\.bool|x\.dtype)", r"dtype=torch.int32"),
    Mistake("other output type", r"torch\.empty_like\((\w+)\)", r"torch.empty_like(\1, dtype=torch.float16)"),
    Mistake("one element off", r"out_ptr \+ i,", r"out_ptr + i + (i == 7),"),
    Mistake("one row of the input twice", r"x_ptr \+ row \*", r"x_ptr + (row - (row == 2)) *"),
    Mistake("result twice", r"return out\n", r"return out + out\n"),
    Mistake("wrong grid", r"\(scores\.numel\(\) // size,\)", r"(size,)"),
)  # fmt: skip

_COVERED = (
    "neighbouring programs store the same value once more, and the grid still covers everything"
)
_BLOCKS = "i = tl.program_id(0) * (BLOCK - 1) + tl.arange(0, BLOCK)"
_ROWS = "i = tl.program_id(0) * (BM - 1) + tl.arange(0, BM)"
_ONES = (
    "x = tl.load(x_ptr + i[:, None] * inner + k[None, :], "
    "mask=(i[:, None] < rows) & (k[None, :] < inner), other=1.0)"
)
EQUIVALENT: dict[tuple[str, str], str] = {
    **{
        (kernel, _BLOCKS): _COVERED for kernel in ("relu_affine", "batch_norm_eval", "running_mean")
    },
    **{(kernel, _ROWS): _COVERED for kernel in ("linear_gelu", "half_product")},
    **{
        (kernel, _ONES): "the other operand of the product is filled with zeros there"
        for kernel in ("linear_gelu", "half_product")
    },
    (
        "masked_softmax",
        "x = tl.load(x_ptr + row * size + j, mask=inside, other=0.0)",
    ): "the mask is added next, and filled with minus infinity there",
    (
        "half_product",
        "tl.store(out_ptr + i[:, None] * columns + j[None, :], (total).to(tl.bfloat16), "
        "mask=(i[:, None] < rows) & (j[None, :] < columns))",
    ): "the output is bfloat16 anyway",
    ("in_place", "row = tl.program_id(0) ^ 1"): "six rows in another order, each on its own",
}
"""Kernel and changed line to the reason why it changes no result."""


def faults(kernel: str, each: int = EACH) -> tuple[Fault, ...]:
    """The first `each` faults of a kernel, taking each mistake once before any a second time."""
    by_mistake = [list(_places(kernel, mistake)) for mistake in MISTAKES]
    in_turn = (fault for turn in zip_longest(*by_mistake) for fault in turn if fault is not None)
    different = {fault.source: fault for fault in in_turn if _is_python(fault.source)}
    chosen = [fault for fault in different.values() if fault.equivalent is None][:each]
    declared = [fault for fault in different.values() if fault.equivalent is not None]
    return (*chosen, *declared)


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _places(kernel: str, mistake: Mistake) -> Iterator[Fault]:
    source = honest_kernel(kernel)
    for match in re.finditer(mistake.pattern, source):
        changed = (
            source[: match.start()] + match.expand(mistake.replacement) + source[match.end() :]
        )
        yield Fault(
            kernel,
            mistake.name,
            _line(source, match.start()),
            _line(changed, match.start()),
            changed,
        )


def _line(text: str, at: int) -> str:
    begin = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[begin : end if end >= 0 else None].strip()


@dataclass(frozen=True)
class Verdict:
    """What the judge said about one fault."""

    fault: Fault
    code: str | None
    """None: accepted, the fault was not caught."""


def judged(kernel: str, planted: Iterable[Fault], judges: Judges = HERE) -> list[Verdict]:
    """The judge's word on each."""
    settings = JudgeSettings(ProblemSpec(path=str(problem_path(kernel))), device="virtual")
    with judges.open(settings, lambda *_: None) as judge:
        return [_verdict(judge, fault) for fault in planted]


def _verdict(judge: Evaluator, fault: Fault) -> Verdict:
    result = judge.evaluate(Candidate(fault.source), lambda _: None)
    return Verdict(fault, result.reason.code if result.reason else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=EACH)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    with ThreadPoolExecutor(max_workers=2) as pool:
        result = list(pool.map(lambda name: judged(name, faults(name, arguments.each)), KERNELS))
    text = _table(result, arguments.each)
    print(text)
    if arguments.write:
        arguments.write.write_text(text + "\n", encoding="utf-8")


def _table(found: list[list[Verdict]], each: int) -> str:
    lines = [
        "# Planted faults",
        "",
        f"`python -m benchmarks.faults --each {each}`, virtual device, {platform.machine()}.",
        "",
        "| kernel | planted | equivalent | caught | by |",
        "|---|---|---|---|---|",
    ]
    missed, planted, caught = [], 0, 0
    for kernel, verdicts in zip(KERNELS, found, strict=True):
        real = [v for v in verdicts if v.fault.equivalent is None]
        codes = Counter(v.code for v in real if v.code)
        missed += [v for v in real if v.code is None]
        planted, caught = planted + len(real), caught + sum(codes.values())
        by = ", ".join(f"{code} {count}" for code, count in codes.most_common())
        same = len(verdicts) - len(real)
        lines.append(f"| {kernel} | {len(real)} | {same} | {sum(codes.values())} | {by} |")
    lines += ["", f"{caught} of {planted} caught: {caught / planted:.1%}.", ""]
    lines += [
        f"- not caught in {v.fault.kernel}, {v.fault.mistake}: `{v.fault.before}` became `{v.fault.after}`"
        for v in missed
    ]
    lines += [
        f"- equivalent in {kernel}: `{line}`: {why}" for (kernel, line), why in EQUIVALENT.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
