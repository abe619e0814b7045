"""A run's state and events as a document: outcome, number, proof, kernels, history, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelagent.domain.better import perhaps_behind, ratio_interval
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import Evaluation, Interval
from kernelagent.domain.events import Logged
from kernelagent.domain.serialization import from_data
from kernelagent.prompts.last_screen import whole_model_lines
from kernelagent.prompts.next_steps import next_steps
from kernelagent.report import evidence, limits, proof, story
from kernelagent.report.document import (
    Block,
    Code,
    Document,
    Figure,
    Figures,
    Folded,
    Mono,
    Paragraph,
    Section,
    Strong,
    Table,
    Words,
    present,
)
from kernelagent.report.record import reproduce_command, timing_command_of
from kernelagent.report.reproduce import replay_command
from kernelagent.storage.run_state import RunState


def document(state: RunState, events: Sequence[Logged]) -> Document:
    """The whole report; `state` is the fold of `events`."""
    winner = state.winner if state.emitted is not None else None
    # One that is not faster was verified like any winner, and is kept for `apply`.
    kept = state.finished is not None and state.finished.outcome == "not_faster"
    judged = state.winner if kept else winner
    sections = [
        Section("The problem", _problem(state)),
        Section("What was verified, and how", _verified(state, judged)),
        Section("What was not verified", limits.not_verified(state, judged)),
        Section("How to reproduce it", _reproduce(state)),
        *(_of_winner(state, winner) if winner is not None else ()),
        Section("History", story.history(state, events)),
        Section("Environment", _environment(state)),
        Section("The code", _code(state)),
    ]
    return Document(
        title=f"{_name(state)}: kernelagent run {state.run or 'without a beginning'}",
        lead=_lead(state, winner),
        blocks=_top(state, winner),
        sections=tuple(section for section in sections if section.blocks),
    )


def _of_winner(state: RunState, winner: Evaluation) -> tuple[Section, ...]:
    return (
        Section("The kernels", evidence.kernels(winner)),
        Section("Before and after", evidence.before_and_after(state, winner)),
        Section("Roofline", evidence.roofline(winner)),
    )


def _verified(state: RunState, winner: Evaluation | None) -> tuple[Block, ...]:
    return () if winner is None else proof.verification(state, winner)


def _name(state: RunState) -> str:
    return state.facts.name if state.facts else state.problem.label if state.problem else "unknown"


def _lead(state: RunState, winner: Evaluation | None) -> Words:
    end = state.finished
    if end is None:
        return (
            Strong("The run has not ended."),
            " This is what its log holds so far; ",
            Mono(f"kernelagent optimize --resume {state.run}"),
            " goes on with it.",
        )
    if winner is None or state.emitted is None:
        return Strong("No better module was written."), f" {_sentence(end.why)}"
    if winner.timing is None:
        word = "Verified, not timed:"
    else:
        word = "Verified and certified faster:" if winner.faster else "Verified and timed:"
    return (
        Strong(word),
        " ",
        Mono(state.emitted),
        f" can stand in for {_name(state)} within the limits named below.",
    )


def _top(state: RunState, winner: Evaluation | None) -> tuple[Block, ...]:
    if winner is None:
        best = state.history.best
        if best is None:
            return ()
        message = f"Turn {best.index} was accepted in its turn, but nothing was emitted."
        return (Paragraph(message),)
    return present(
        Figures(figures(winner)), _sets(winner), _in_the_whole(state), _next(state, winner)
    )


def _in_the_whole(state: RunState) -> Paragraph | None:
    if state.whole is None:
        return None
    right, time = whole_model_lines(state.whole)
    return Paragraph((Strong("In the whole model:"), f" {right}. Its time: {time}."))


def _next(state: RunState, winner: Evaluation) -> Paragraph | None:
    """The words of the command's last screen."""
    if state.emitted is None:
        return None
    submodule = state.problem.submodule if state.problem is not None else None
    words: list[str | Mono | Strong] = [Strong("What to do next:"), " "]
    checked = state.whole is not None and state.whole.right
    steps = next_steps(
        winner, Path(state.emitted), timing_command_of(state), submodule, checked=checked
    )
    for place, step in enumerate(steps):
        words += ["; "] if place else []
        words += [step.before, Mono(step.code), step.after]
    return Paragraph((*(word for word in words if word), "."))


def figures(winner: Evaluation) -> tuple[Figure, ...]:
    """The number against each baseline with its interval; never an estimate without the word."""
    if winner.timing is None:
        return (_estimated(winner), _against_compile(winner))
    t = winner.timing
    eager = _measured(t.speedup_eager, "eager", t.eager_us, t.candidate_us)
    if t.speedup_compile is None or t.compile_us is None:
        compiled = Figure("not measured", "against torch.compile", "this baseline was not timed")
    else:
        compiled = _measured(t.speedup_compile, "torch.compile", t.compile_us, t.candidate_us)
    return eager, compiled


def _measured(ratio: Interval, name: str, baseline_us: float, us: float) -> Figure:
    return Figure(
        f"{ratio.value:.2f}×",
        f"the speed of {name}: {us:.4g} µs a call against {baseline_us:.4g} µs",
        f"measured, 95 % interval {ratio.low:.2f} to {ratio.high:.2f}",
    )


def _estimated(winner: Evaluation) -> Figure:
    e = winner.estimate
    ratio = ratio_interval(winner)
    if e is None or ratio is None:
        return Figure("no number", "against eager", "neither timed nor estimated")
    doubt = (
        f"estimate, not timed: counted traffic and a cost model; {ratio.value:.2f}x eager's speed, "
        f"80 % interval {ratio.low:.2f} to {ratio.high:.2f}"
    )
    return Figure(
        f"{e.candidate_us:.4g} µs (estimate)",
        f"a call, where the estimate for eager is {e.eager_us:.4g} µs, on {winner.device.name}; "
        f"bound by {e.bound}",
        doubt,
    )


def _against_compile(winner: Evaluation) -> Figure:
    e = winner.estimate
    if e is None or e.compile is None or e.speedup_compile is None:
        return Figure("no number", "against torch.compile", "neither timed nor estimated")
    ratio = e.speedup_compile
    warning = perhaps_behind(e)
    return Figure(
        f"{ratio.value:.2f}× (estimate)",
        f"the speed of torch.compile, for which the estimate is {e.compile.value:.4g} µs a call",
        f"estimate, not timed: 80 % interval {ratio.low:.2f} to {ratio.high:.2f}"
        + ("" if warning is None else f"; {warning}"),
    )


def _sets(winner: Evaluation) -> Table | None:
    """A row for each input set, where there are several."""
    if len(winner.input_sets) < 2:
        return None
    if winner.timing is None:
        heads = ("input set", "call", "estimate", "estimate for eager")
    else:
        heads = ("input set", "call", "measured", "eager, and the speed against it")
    rows = []
    for item in winner.input_sets:
        t, e = item.timing, item.estimate
        if t is not None:
            r = t.speedup_eager
            ratio = f"{t.eager_us:.4g} µs, {r.value:.2f}× [{r.low:.2f}, {r.high:.2f}]"
            numbers = (f"{t.candidate_us:.4g} µs", ratio)
        elif e is not None:
            numbers = (f"{e.candidate_us:.4g} µs", f"{e.eager_us:.4g} µs")
        else:
            numbers = ("none", "none")
        rows.append((Mono(item.name), Mono(f"forward{item.arguments}"), *numbers))
    return Table(heads, tuple(rows), frozenset({2, 3}))


def _problem(state: RunState) -> tuple[Block, ...]:
    facts = state.facts
    if facts is None:
        return (Paragraph("The judge had not described the problem when the log ended."),)
    result = f", in {state.problem.label}" if state.problem else ""
    rows = tuple(
        (
            Mono(item.name),
            Mono(f"forward{item.arguments}"),
            "as given" if item.executed is None else "at a reduced size",
        )
        for item in facts.input_sets
    )
    state_text = ", ".join(
        f"{item.name}: {item.dtype}[{', '.join(map(str, item.shape))}]" for item in facts.state
    )
    return present(
        Paragraph(
            (Mono(f"{facts.entry_point}{facts.init_arguments}"), f"{result}; {facts.precision}.")
        ),
        Paragraph(("Its state: ", Mono(state_text), ".")) if state_text else None,
        Table(("input set", "call", "executed"), rows),
    )


def _code(state: RunState) -> tuple[Block, ...]:
    blocks: list[Block] = []
    candidate = None
    if state.emitted is not None and state.winner_turn is not None:
        candidate = state.history.turn(state.winner_turn).candidate
    if candidate is not None:
        message = (
            f"What turn {state.winner_turn} wrote. The emitted file adds guards around it, which send "
            "every call outside the verified limits to the original forward."
        )
        blocks += [Paragraph(message), Code(candidate.source, "python")]
    if state.facts is not None:
        blocks.append(Folded("The problem, as it was given", (Code(state.facts.source, "python"),)))
    return tuple(blocks)


def _environment(state: RunState) -> tuple[Block, ...]:
    rows: list[tuple[Words, ...]] = []
    if state.device is not None:
        d = state.device
        rows += [
            ("device", f"{d.kind}: {d.name}"),
            ("target", d.target),
            ("driver", d.driver or "none"),
            ("sandbox", state.sandbox),
            ("judge's torch and triton", f"{d.torch}, {d.triton}"),
        ]
    rows += [(name, version) for name, version in state.versions.items()]
    names = ("model", "strategy", "seed", "policy", "baseline", "mode")
    rows += [(name, _shown(state.config[name])) for name in names if name in state.config]
    if "min_speedup" in state.config:
        rows.append(("counts as faster from", f"{state.config['min_speedup']:g}×"))
    return (Table(("what", "which"), tuple(rows)),) if rows else ()


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _reproduce(state: RunState) -> tuple[Block, ...]:
    command = reproduce_command(state)
    if command is not None:
        return (
            Paragraph("This judges the emitted file again, with inputs drawn anew:"),
            Code(f"$ {command}", "console"),
        )
    if state.problem is None:
        return ()
    again = replay_command(state.problem, from_data(state.config, RunConfig), state.run)
    return (
        Paragraph("This judges every reply of the run again, in the same order:"),
        Code(f"$ {again}", "console"),
    )


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
