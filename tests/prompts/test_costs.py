"""What the first prompt says of speed and accuracy: numbers where they are known, no line where not."""

from __future__ import annotations

from dataclasses import replace

from kernelagent.domain.estimated import Estimated
from kernelagent.domain.history import History, TurnRequest
from kernelagent.domain.problem import LeastTime, ReferenceEstimate, TensorFacts, Tolerance
from kernelagent.domain.profile import Operation
from kernelagent.prompts import prompt_tokens, render_prompt
from tests.evaluations import DEVICE, FACTS

REQUEST = TurnRequest("write", "m")
ESTIMATE = ReferenceEstimate(
    "default",
    Estimated(4087.0, 3000.0, 5000.0),
    Estimated(3018.0, 2000.0, 4000.0),
    (
        Operation("convolution", 3, 3000.0, 0.75, 2_400_000_000, "dram", 76_100_000_000),
        Operation("tanh", 1, 1000.0, 0.25, 4_200_000_000, "dram", 0),
    ),
    LeastTime(398_500_000, {"fp32": 76_100_000_000}, 92.2, 660.0, 680.0),
)
KNOWN = replace(
    FACTS,
    estimates=(ESTIMATE,),
    tolerances=(Tolerance("output", 1.35, 1.3e-6, 1e-5),),
    matmul_precision="highest",
)


def task(facts, device=DEVICE, style="strong"):
    return render_prompt(facts, device, History(), REQUEST, style=style)[1].content


def test_reference_is_told_by_operation_with_the_least_that_counts_every_operator() -> None:
    text = task(KNOWN)
    assert "eager 4087 us, torch.compile 3018 us" in text
    assert (
        "- convolution (3 kernels): 3000 us (75%), moves 2.4 GB, 76.1 GFLOP, bound by memory"
        in text
    )
    assert (
        "92.2 us for moving 398.5 MB once, 660 us for the operations (76.1 GFLOP of fp32; fp32 as three products of a narrower type, at the share of the peak that kernels reach)"
        in text
    )
    assert "eager reaches 17% of that speed" in text


def test_tolerance_is_a_number_and_the_precision_says_which_products_pass() -> None:
    text = task(KNOWN)
    assert "an RMS error up to 1.3e-06, about 8.1 ulps of float32" in text
    assert 'input_precision="tf32x3"' in text
    assert "plain tf32, which is `tl.dot`'s default, and bf16 are refused" in text
    assert "TF32, which is `tl.dot`'s default; bf16 is refused" in task(
        replace(KNOWN, matmul_precision="high")
    )


def test_convolutions_may_be_rounded_where_torch_says_so_and_other_products_not() -> None:
    facts = replace(KNOWN, convolutions_round=True)
    text = task(facts)
    assert "float32 convolutions may be TF32, as cuDNN's are by default" in text
    assert "plain tf32, which is `tl.dot`'s default, and bf16 are refused" in text
    least = replace(ESTIMATE.least, flops={"tf32": 76_100_000_000})
    alone = task(replace(facts, estimates=(replace(ESTIMATE, least=least),)))
    assert "float32 convolutions may be TF32" in alone
    assert "are refused" not in alone


def test_only_sizes_that_the_constructor_has_are_said_to_be_others_there() -> None:
    (given,) = FACTS.input_sets
    facts = replace(
        KNOWN,
        init_arguments="(1024, eps=1e-06, rate=512.5)",
        executed_arguments=((1024, 64), (512, 32), (6, 2)),
        input_sets=(replace(given, executed=given.tensors),),
    )
    assert "there the constructor gets 1024 as 64\n" in task(facts)
    assert "the constructor gets" not in task(replace(facts, init_arguments="()"))


def test_peak_rates_strides_and_executed_sizes_are_told() -> None:
    device = replace(
        DEVICE,
        operations_per_s=(("fp16", 989e12), ("bf16", 989e12), ("fp32", 67e12)),
        launch_us=12.4,
    )
    (given,) = FACTS.input_sets
    column = TensorFacts("x", (4, 8), "float32", (1, 4))
    small = replace(column, shape=(2, 8))
    facts = replace(KNOWN, input_sets=(replace(given, tensors=(column,), executed=(small,)),))
    text = task(facts, device)
    assert "fp16/bf16 989, fp32 (no tensor cores) 67" in text
    assert "each launch costs the host about 12 us" in text
    assert "- not contiguous: x: strides [1, 4]" in text
    assert "input set `default`: x[2, 8]" in text
    assert "- in evaluation mode (`.eval()`), without gradients" in text
    assert "evaluation mode" not in task(replace(facts, mode="train"))
    assert (
        "(those that are executed included, each with a smaller leading dimension as well), raise"
        in text
    )


def test_small_models_are_told_no_costs_and_older_logs_have_none() -> None:
    small, before = (
        render_prompt(f, DEVICE, History(), REQUEST, style="small") for f in (KNOWN, FACTS)
    )
    assert prompt_tokens(small) == prompt_tokens(before)
    older = task(FACTS)
    assert "Estimates for the reference" not in older
    assert "Accuracy that is accepted" not in older
