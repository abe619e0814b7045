"""What a run did not verify: said as plainly as what it did."""

from __future__ import annotations

from kernelagent.domain.evaluation import Evaluation
from kernelagent.report.document import Block, Bullets, Mono, Paragraph, Words
from kernelagent.report.proof import work_is_proved
from kernelagent.storage.run_state import RunState


def not_verified(state: RunState, winner: Evaluation | None) -> tuple[Block, ...]:
    """Limits of the verdict, then what judge and run disclosed."""
    items: list[Words] = []
    if winner is None and state.measured:
        turns = ", ".join(map(str, sorted(state.measured)))
        items.append(
            f"Nothing was emitted: judged a second time (turn {turns}), no candidate was both right and known to be faster."
        )
    elif winner is None:
        items.append("No candidate was judged a second time: no verdict of this run is final.")
    if winner is not None:
        items += _limits(state, winner)
    if state.device is not None and state.device.kind == "virtual":
        items += _without_a_gpu(state.device.target)
    blocks: list[Block] = [Bullets(tuple(items))]
    message = _disclosed(state, winner)
    if message:
        blocks += [Paragraph("Disclosed by the judge and the run:"), Bullets(message)]
    return tuple(blocks)


def _limits(state: RunState, winner: Evaluation) -> list[Words]:
    items: list[Words] = [
        f"Dtypes, shapes, strides and devices other than {_verified(state, winner)}: the emitted module runs "
        "the original forward there.",
        "Other versions of torch, triton or the driver; other devices of the same kind.",
    ]
    if winner.mode == "eval":
        items.append(
            "Training: neither gradients nor training mode. A call that needs a gradient runs the "
            "original forward."
        )
    else:
        items.append("Gradients of gradients (`create_graph=True`).")
    if not work_is_proved(winner):
        items.append("That the Triton kernels do the work: torch may have done it.")
    items.append("Behaviour under autocast or torch.func: the original forward runs there.")
    shrunk = [item.name for item in winner.input_sets if item.executed is not None]
    if shrunk:
        items.append(
            f"Results at full size of input set {', '.join(shrunk)}: a smaller one was executed."
        )
    if winner.timing is not None and winner.timing.compile_us is None:
        items.append("Speed against torch.compile: it was not measured.")
    items.append(
        "The reference's own kernels: the log holds their time together, and no profile of each."
    )
    return items


def _verified(state: RunState, winner: Evaluation) -> str:
    names = ", ".join(item.name for item in winner.input_sets) or "none"
    sizes = state.facts.dynamic if state.facts is not None else ()
    declared = f" with other sizes of {', '.join(sizes)}" if sizes else ""
    known = {item.name for item in winner.input_sets}
    admitted = [item for item in winner.envelope.get("input_sets", ()) if item["name"] not in known]
    near = f" and {len(admitted)} near them, which are admitted" if admitted else ""
    return f"those of input set {names}{declared}{near}"


def _without_a_gpu(target: str) -> list[Words]:
    return [
        f"Speed. Nothing ran on a GPU: the kernels were compiled for {target} and executed by an "
        "interpreter, and every time in this report is an estimate.",
        "Races between programs that run at once, and the arithmetic of real hardware.",
    ]


def _disclosed(state: RunState, winner: Evaluation | None) -> tuple[Words, ...]:
    result: dict[str, str] = {}
    if state.facts is not None:
        result |= {item.message: item.code for item in state.facts.disclosures}
    if winner is not None:
        result |= {item.message: item.code for item in winner.disclosures}
    rows: list[Words] = [(Mono(code), f": {message}") for message, code in result.items()]
    return (*rows, *state.remarks)
