"""What to try next, given how the last candidate fared: one hypothesis a turn, never the same twice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from kernelagent.domain.evaluation import Evaluation, KernelFacts, Reason
from kernelagent.models.compiler.capturing.kept_weights import KEPT, UNTIL
from kernelagent.models.compiler.choices import (
    GROUPED,
    PRECEDES,
    Alternative,
    Choice,
    Config,
    power_of_two,
)
from kernelagent.tools.estimates.moved_reductions import MOVED

_MOST_BLOCK, _LEAST_BLOCK = 8192, 16
_MOST_ROWS = 64
_WORTH = 1.02
"""A candidate is better than another when its score is 2 % higher."""
_ALIKE = 0.005
"""Relative difference below which two estimates are the same."""
_HIDDEN = 1 / 3
"""Share of an estimate that kernels may keep the device busy and still be hidden by the host: both side by side take
their fourth powers' root (`estimates.library`), so that faster kernels would gain 0.3 % of it."""
_TOO_LARGE = {"out_of_resources", "compile_error", "timeout"}


@dataclass(frozen=True)
class Attempt:
    """A candidate of the past: what was chosen, what its kernels are, what came of it."""

    choice: Choice
    configs: Mapping[str, Config]
    """In force, by kernel, usual ones included."""
    kinds: Mapping[str, str]
    evaluation: Evaluation
    alternatives: Mapping[str, Sequence[Alternative]] = field(default_factory=dict)
    """What a template offers beside what its kernels are, by kernel."""
    sites: Mapping[str, bool] = field(default_factory=dict)
    """Where a template could take over from torch's library, and whether it did."""
    trained: bool = False
    """Whether it has a backward."""

    @property
    def score(self) -> float:
        return self.evaluation.score


@dataclass(frozen=True)
class Hypothesis:
    """A choice not tried yet, and why it should be faster."""

    choice: Choice
    words: str


def next_hypothesis(attempts: Sequence[Attempt], alike: Sequence[Choice] = ()) -> Hypothesis | None:
    """The most promising change to the best attempt so far; None when nothing is left.

    `alike`: choices that are known to write what was tried.
    """
    tried = {_key(a.choice, a.configs) for a in attempts} | {_asked(a.choice) for a in attempts}
    tried |= {_asked(choice) for choice in alike}
    if raises_alike(attempts):
        return None
    accepted = [a for a in attempts if a.evaluation.accepted]
    base = max(accepted, key=lambda a: a.score) if accepted else attempts[-1]
    configurable = not launches_decide(attempts)
    proposals = _repairs(base) if not accepted else _improvements(base, configurable=configurable)
    for hypothesis in proposals:
        merged = {**base.configs, **hypothesis.choice.configs}
        if not {_key(hypothesis.choice, merged), _asked(hypothesis.choice)} & tried:
            return hypothesis
    return None


def raises_alike(attempts: Sequence[Attempt]) -> bool:
    """Whether the last two versions raised an error of the same kind: no block or template is why."""
    last = [a.evaluation.reason for a in attempts[-2:]]
    raised = [reason.detail.get("error", reason.code) for reason in last if _raised(reason)]
    return len(raised) == 2 and raised[0] == raised[1]


def _raised(reason: Reason | None) -> TypeGuard[Reason]:
    return reason is not None and reason.code == "runtime_error"


def launches_decide(attempts: Sequence[Attempt]) -> bool:
    """Whether blocks and warps change nothing that an estimate could tell, because launches bound it.

    So it is where the host takes so long that the device idles, and where two accepted versions of the same kernels
    are estimated alike. Measured times are not asked.
    """
    bound = [
        (estimate.candidate_us, a.evaluation.kernels)
        for a in attempts
        if a.evaluation.accepted
        and (estimate := a.evaluation.estimate) is not None
        and estimate.bound == "launch"
    ]
    if any(_hidden(kernels, us) for us, kernels in bound):
        return True
    named = [(us, sorted((k.name, k.launches) for k in kernels)) for us, kernels in bound]
    return any(
        kernels == others and math.isclose(one_us, other_us, rel_tol=_ALIKE)
        for at, (one_us, kernels) in enumerate(named)
        for other_us, others in named[:at]
    )


def _hidden(kernels: Sequence[KernelFacts], forward_us: float) -> bool:
    """Whether all the kernels' own time passes while the host is still at work."""
    times = [kernel.estimate_us for kernel in kernels if kernel.estimate_us is not None]
    return 0 < len(times) == len(kernels) and sum(times) <= _HIDDEN * forward_us


def _key(choice: Choice, configs: Mapping[str, Config]) -> str:
    """Key of the configurations used: choices with equal effective settings get equal keys."""
    sites = sorted(choice.sites.items())
    return f"{choice.persistent} {choice.recompute} {sites} {sorted(configs.items(), key=lambda item: item[0])}"


def _asked(choice: Choice) -> str:
    """Key of the requested choice, for choices whose kernels are only known once they are written."""
    return f"asked {_key(choice, choice.configs)}"


def _repairs(base: Attempt) -> Iterator[Hypothesis]:
    reason = base.evaluation.reason
    code = reason.code if reason is not None else "unknown"
    message = f"The last version was refused ({code})"
    yield from _other_templates(base, code, message)
    if base.choice.persistent and any(k == "persistent_reduction" for k in base.kinds.values()):
        yield Hypothesis(
            replace(base.choice, persistent=False, configs={}),
            f"{message}; rows are looped over in blocks instead of held whole, which needs fewer "
            f"registers and less shared memory.",
        )
    if code in _TOO_LARGE:
        for name, config in base.configs.items():
            if name in base.alternatives:
                continue
            smaller = _scaled(config, name, base.kinds[name], 0.5)
            if smaller is not None:
                yield Hypothesis(
                    _with(base.choice, name, smaller),
                    f"{message}; `{name}` gets half the block, so that it fits.",
                )


def _improvements(base: Attempt, *, configurable: bool) -> Iterator[Hypothesis]:
    """`configurable`: whether blocks, warps and stages may matter."""
    facts = {kernel.name: kernel for kernel in base.evaluation.kernels}
    names = base.configs if configurable else ()
    order = sorted(names, key=lambda n: -(_share(facts.get(n)) or 0.0))
    for name in order:
        yield from _from_facts(base, name, facts.get(name))
    yield from _other_sites(base)
    if base.trained and base.choice.recompute:
        yield Hypothesis(
            replace(base.choice, recompute=False, configs={}, sites={}),
            "Keep what the backward would compute again: less arithmetic, more memory to write and read.",
        )
    if configurable and any(kind == "persistent_reduction" for kind in base.kinds.values()):
        yield Hypothesis(
            replace(base.choice, persistent=False, configs={}),
            "Holding whole rows may cost occupancy: loop over each row in blocks instead.",
        )
    for name in order:
        yield from _routine(base, name)


def _other_templates(base: Attempt, code: str, message: str) -> Iterator[Hypothesis]:
    """Where a template's kernel may be why it was refused: smaller, more exact, or the library's."""
    for name, offered in base.alternatives.items():
        now = base.configs[name]
        for item in offered:
            smaller = _area(item.config) < _area(now) and item.config.precision == now.precision
            if smaller if code in _TOO_LARGE else item.config.precision != now.precision:
                yield Hypothesis(
                    _with(base.choice, name, item.config), f"{message}; instead, {item.words}"
                )
    for key, taken in base.sites.items():
        if taken:
            yield Hypothesis(
                _flipped(base.choice, key, on=False),
                f"{message}; {_otherwise(key, taken=True)}, in case that was why.",
            )


def _other_sites(base: Attempt) -> Iterator[Hypothesis]:
    for key, taken in base.sites.items():
        yield Hypothesis(
            _flipped(base.choice, key, on=not taken),
            f"The estimates of both ways are uncertain: {_otherwise(key, taken=taken)}, and the judge compares.",
        )


def _flipped(choice: Choice, key: str, *, on: bool) -> Choice:
    """With this choice the other way round; what was chosen for products and kernels is of others in another program."""
    if MOVED not in key and key != KEPT:
        return replace(choice, sites={**choice.sites, key: on})
    return replace(choice, configs={}, sites={**choice.rewrites, key: on})


def _otherwise(key: str, *, taken: bool) -> str:
    """What a choice means that is the other way round."""
    if MOVED in key:
        return f"{key} is {'taken where the module has it' if taken else 'moved again'}"
    if key == KEPT:
        return f"{key} is computed {'in every call' if taken else f'once and kept {UNTIL}'}"
    if PRECEDES in key:
        return f"{'a kernel of its own does' if taken else 'its own tiles do'} {key}"
    if GROUPED in key:
        products = key.split(GROUPED)[-1]
        return f"{products} {'have a launch each' if taken else 'share one launch'}"
    return ("torch's library does " if taken else "a kernel of ours does ") + key


def _area(config: Config) -> int:
    """Elements of a tile's operands and sum, which shared memory and registers hold."""
    rows, cols, inner = (config.blocks.get(b, 1) for b in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    return rows * cols + (rows + cols) * inner * config.num_stages


def _share(kernel: KernelFacts | None) -> float | None:
    return kernel.share_of_device_time if kernel is not None else None


def _from_facts(base: Attempt, name: str, kernel: KernelFacts | None) -> Iterator[Hypothesis]:
    """What the evaluation itself suggests."""
    if name in base.alternatives:
        for item in base.alternatives[name]:
            yield Hypothesis(_with(base.choice, name, item.config), item.words)
        return
    if kernel is None:
        return
    config, kind = base.configs[name], base.kinds[name]
    if kernel.spills:
        warps = min(16, config.num_warps * 2)
        yield Hypothesis(
            _with(base.choice, name, replace(config, num_warps=warps)),
            f"`{name}` has {kernel.spills} spill instructions: {warps} warps instead of "
            f"{config.num_warps} leave each thread fewer values to hold.",
        )
    programs = (kernel.grid[0] * kernel.grid[1] * kernel.grid[2]) if kernel.grid else 0
    if 0 < programs < (base.evaluation.device.multiprocessors or 0) and kernel.bound == "launch":
        smaller = _scaled(config, name, kind, 0.5)
        if smaller is not None:
            yield Hypothesis(
                _with(base.choice, name, smaller),
                f"`{name}` runs {programs} programs, fewer than there are multiprocessors: half "
                f"the block spreads the work wider.",
            )
    if programs > 4096:
        larger = _scaled(config, name, kind, 2)
        if larger is not None:
            yield Hypothesis(
                _with(base.choice, name, larger),
                f"`{name}` runs {programs} programs: twice the block halves the scheduling and "
                f"gives each thread more loads in flight.",
            )
    if kernel.occupancy is not None and kernel.occupancy < 0.5 and config.num_warps > 1:
        fewer = config.num_warps // 2
        yield Hypothesis(
            _with(base.choice, name, replace(config, num_warps=fewer)),
            f"`{name}` reaches {kernel.occupancy:.0%} occupancy, limited by "
            f"{kernel.occupancy_limiter}: {fewer} warps a program let more programs live at once.",
        )


def _routine(base: Attempt, name: str) -> Iterator[Hypothesis]:
    """Neighbouring settings, larger steps first."""
    if name in base.alternatives:
        return
    config, kind = base.configs[name], base.kinds[name]
    for factor, word in ((2.0, "twice"), (0.5, "half")):
        scaled = _scaled(config, name, kind, factor)
        if scaled is not None:
            yield Hypothesis(
                _with(base.choice, name, scaled),
                f"Nothing in the evaluation points elsewhere: `{name}` with {word} the block.",
            )
    for warps in (config.num_warps * 2, config.num_warps // 2):
        if 1 <= warps <= 16:
            yield Hypothesis(
                _with(base.choice, name, replace(config, num_warps=warps)),
                f"`{name}` with {warps} warps instead of {config.num_warps}.",
            )
    if kind == "reduction":
        stages = 3 if config.num_stages == 1 else 1
        yield Hypothesis(
            _with(base.choice, name, replace(config, num_stages=stages)),
            f"`{name}` loops over its rows: {stages} stages let the next block load meanwhile.",
        )


def _scaled(config: Config, name: str, kind: str, factor: float) -> Config | None:
    """Blocks larger or smaller by `factor`: of rows for a held reduction, of elements otherwise."""
    del name
    which = "R0_BLOCK" if kind == "reduction" else "XBLOCK"
    size = int(config.blocks.get(which, 0) * factor)
    least, most = (1, _MOST_ROWS) if kind == "persistent_reduction" else (_LEAST_BLOCK, _MOST_BLOCK)
    if not least <= size <= most or size != power_of_two(size):
        return None
    return replace(config, blocks={**config.blocks, which: size})


def _with(choice: Choice, name: str, config: Config) -> Choice:
    return replace(choice, configs={**choice.configs, name: config})
