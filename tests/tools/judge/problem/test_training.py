"""Verdicts with `--train`: honest gradients are accepted, each way of faking them is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import ProblemError
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.tool_calls import Probed, ToolCall
from kernelagent.prompts.tools.tool_answers import answer_text
from kernelagent.tools.corpus.entries.gradients import GRADIENT_CHEATS, GRADIENT_TWINS
from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel, problem_path
from kernelagent.tools.judge.judge import Judge
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.steps.training import require_trainable, training_rounds
from kernelagent.tools.judge.problem.trials.inputs import input_sources
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.lanes import often

BASE = "relu_affine_trained"
HONEST = honest_kernel(BASE)


@pytest.fixture(scope="module")
def judge(fork_server: ForkServer) -> Iterator[Judge]:
    problem = ProblemSpec(path=str(problem_path(BASE)))
    made = Judge(JudgeSettings(problem, device="virtual", mode="train"), fork_server)
    yield made
    made.close()


def verdict(judge: Judge, source: str) -> Evaluation:
    return judge.evaluate(source, "verdict", lambda stage: None)


@pytest.mark.long
def test_kernels_for_forward_and_backward_are_accepted_with_their_gradients(judge: Judge) -> None:
    result = verdict(judge, HONEST)
    assert result.accepted, result.reason
    assert result.mode == "train"
    assert result.correctness is not None
    assert result.correctness.gradients == ("weight", "bias", "input 0")
    assert result.envelope["modes"] == ["eval", "train"]
    assert {"first_order_only", "forward_and_backward"} <= {d.code for d in result.disclosures}
    assert {k.name for k in result.kernels} == {"relu_affine", "relu_affine_backward"}


def probed(judge: Judge, source: str) -> tuple[Probed, str]:
    result = judge.call_tool(ToolCall.of("probe", code=source), 60.0)
    assert result.probed is not None
    return result.probed, answer_text(result, judge.device)


@pytest.mark.long
def test_a_probe_compares_every_gradient_of_one_backward(judge: Judge) -> None:
    result, text = probed(judge, HONEST)
    assert result.fault is None
    names = [difference.output for difference in result.differences]
    assert names[0] == "output"
    assert {"gradient of weight", "gradient of bias", "gradient of input 0"} <= set(names)
    assert all(difference.within for difference in result.differences)
    assert "one forward with one backward" in text
    assert "Launched: relu_affine, relu_affine_backward." in text


@pytest.mark.long
def test_a_probe_names_the_gradient_that_is_wrong_or_missing(judge: Judge) -> None:
    wrong, text = probed(judge, HONEST.replace("return dx, dw, db\n", "return dx, dw, 2 * db\n"))
    assert wrong.fault is not None
    assert "gradient of bias" in wrong.fault.message
    (row,) = (d for d in wrong.differences if d.output == "gradient of bias")
    assert not row.within
    assert "gradient of bias (float32" in text
    missing, _ = probed(judge, HONEST.replace("return dx, dw, db\n", "return dx, dw, None\n"))
    assert missing.fault is not None
    assert missing.fault.message == "the gradient of bias: there is none"


DENSE = ("        g = upstream.contiguous()\n", "        g = upstream\n")
INTO_GRAD = (
    "        return dx, dw, db\n",
    "        ctx.owner.weight.grad = dw\n        return dx, None, db\n",
)
OWNER = (
    (
        "    def forward(ctx, x, weight, bias):\n",
        "    def forward(ctx, x, weight, bias, owner):\n        ctx.owner = owner\n",
    ),
    (
        "ReluAffine.apply(x, self.weight, self.bias)",
        "ReluAffine.apply(x, self.weight, self.bias, self)",
    ),
)
NOT_IN_TRAINING = (
    "        return ReluAffine.apply(x, self.weight, self.bias)\n",
    "        out = ReluAffine.apply(x, self.weight, self.bias)\n"
    "        return out * 2.0 if self.training else out\n",
)
WRONG_WEIGHT = ("dw += g * tl.maximum(x, 0.0)", "dw += g * x")
MISSING_ROW = ("for row in range(rows):", "for row in range(rows - 1):")
OWN_GRADIENTS = (
    "        return dx, dw, db\n",
    "        ctx.owner.bias.grad = db\n        return dx, dw, db, None\n",
)

CHEATS: dict[str, Any] = {
    "upstream-taken-as-contiguous": ([DENSE], "out_of_bounds or wrong_output"),
    "writes-into-grad-instead-of-returning": (
        [
            *OWNER,
            (
                INTO_GRAD[0],
                INTO_GRAD[1].replace("return dx, None, db", "return dx, None, db, None"),
            ),
        ],
        "wrong_structure",
    ),
    "writes-into-grad-beside-returning": ([*OWNER, OWN_GRADIENTS], "wrong_output"),
    "another-answer-in-training-mode": ([NOT_IN_TRAINING], "wrong_output"),
    "a-term-of-the-weights-gradient-without-relu": ([WRONG_WEIGHT], "wrong_output"),
    "last-row-missing-in-the-gradient": ([MISSING_ROW], "wrong_output"),
}


REFUSED = [fixture for fixture in GRADIENT_CHEATS if fixture.code is not None]
"""The others are accepted and say something beside it, which `tests/tools/corpus` looks at."""
CORPUS = {fixture.name: fixture for fixture in (*REFUSED, *GRADIENT_TWINS)}
ONE_OF_EACH_CODE = {fixture.code: fixture.name for fixture in reversed(REFUSED)}


@pytest.mark.parametrize("fixture", often(CORPUS, ONE_OF_EACH_CODE.values()))
@pytest.mark.always
@pytest.mark.long
def test_the_corpus_is_judged_as_it_says(judge: Judge, fixture: Fixture) -> None:
    result = verdict(judge, fixture.source)
    code = result.reason.code if result.reason else None
    assert code in fixture.codes("virtual"), result.reason


@pytest.mark.long
@pytest.mark.parametrize("name", CHEATS)
def test_gradients_that_are_not_the_references_are_refused(judge: Judge, name: str) -> None:
    edits, code = CHEATS[name]
    result = verdict(judge, edited(HONEST, *edits))
    assert result.reason is not None, "accepted"
    assert result.reason.code in code.split(" or "), result.reason


ONLY_WHAT_IS_NEEDED = (
    "        return dx, dw, db\n",
    "        wanted = ctx.needs_input_grad\n"
    "        return tuple(g if w else None for g, w in zip((dx, dw, db), wanted))\n",
)
RECOMPUTED = (
    HONEST[HONEST.index("        x, weight = ctx.saved") : HONEST.index("class ModelNew")],
    "        with torch.enable_grad():\n"
    "            x, w, b = (t.detach().requires_grad_() for t in (*ctx.saved_tensors, ctx.bias))\n"
    "            out = torch.relu(x) * w + b\n"
    "        return torch.autograd.grad(out, (x, w, b), upstream)\n\n\n",
)
KEEPS_BIAS = (
    "        ctx.save_for_backward(x, weight)\n",
    "        ctx.save_for_backward(x, weight)\n        ctx.bias = bias\n",
)
TWINS: dict[str, Any] = {
    "backward-by-recomputing": [KEEPS_BIAS, RECOMPUTED],
    "only-the-gradients-that-are-needed": [ONLY_WHAT_IS_NEEDED],
    "without-once-differentiable": [("    @once_differentiable\n", "")],
}


@pytest.mark.long
@pytest.mark.parametrize("name", TWINS)
def test_an_honest_twin_is_accepted(judge: Judge, name: str) -> None:
    result = verdict(judge, edited(HONEST, *TWINS[name]))
    assert result.accepted, result.reason


def _asked_to_train(path: Path, text: str) -> Oracle:
    path.write_text(f"import torch\n\n\nclass Model(torch.nn.Module):\n{text}")
    problem = load_problem(ProblemSpec(path=str(path)))
    oracle = Oracle(problem, "cpu", nullcontext)
    sources = input_sources(problem, oracle.module, "cpu", nullcontext, may_shrink=True)
    require_trainable(oracle, sources)
    return oracle


_INPUTS = "\n\n\ndef get_inputs():\n    return [torch.randn(8, 32)]\n"


def test_a_module_that_draws_at_random_in_training_mode_is_a_problem(tmp_path: Path) -> None:
    text = (
        "    def __init__(self):\n        super().__init__()\n"
        "        self.linear, self.drop = torch.nn.Linear(32, 32), torch.nn.Dropout(0.5)\n\n"
        "    def forward(self, x):\n        return self.drop(self.linear(x))\n"
    )
    with pytest.raises(ProblemError, match=r"--train: in training mode .* dropout"):
        _asked_to_train(tmp_path / "dropout.py", text + _INPUTS)


@pytest.mark.parametrize(
    ("forward", "may_pack"),
    [
        # It saves its noise before that is filled: a hook that packs what is saved keeps old memory.
        (
            "with torch.random.fork_rng():\n            torch.manual_seed(0)\n"
            "            return torch.nn.functional.rrelu(x - 1, training=True)",
            (),
        ),
        ("return torch.nn.functional.elu(x)", ("alike", "dense")),
    ],
)
def test_what_is_saved_comes_back_as_other_tensors_where_the_modules_own_gradients_bear_it(
    tmp_path: Path, forward: str, may_pack: tuple[str, ...]
) -> None:
    text = f"    def forward(self, x):\n        {forward}\n"
    assert _asked_to_train(tmp_path / "saved.py", text + _INPUTS).may_pack == may_pack


@pytest.mark.parametrize(
    ("norm", "bears"),
    [
        ("torch.nn.functional.batch_norm(x, self.mean, self.var, training=self.training)", False),
        (
            "(x - self.mean) * self.var.rsqrt() + (self.mean.mul_(0.9) if self.training else 0)",
            True,
        ),
    ],
    ids=["torch's own reads its statistics in the backward", "written out"],
)
def test_a_call_in_training_mode_stands_between_where_the_modules_own_gradients_bear_it(
    tmp_path: Path, norm: str, bears: bool
) -> None:
    text = (
        "    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('mean', torch.zeros(32))\n"
        "        self.register_buffer('var', torch.ones(32))\n\n"
        f"    def forward(self, x):\n        return {norm}\n"
    )
    oracle = _asked_to_train(tmp_path / "norm.py", text + _INPUTS)
    assert oracle.may_be_called_between is bears


@pytest.mark.long
def test_infinities_where_a_mask_hides_drop_no_inputs_of_training_steps() -> None:
    path = problem_path("q_log_softmax")
    problem = load_problem(ProblemSpec(path=str(path)))
    oracle = Oracle(problem, "cpu", nullcontext)
    sources = input_sources(problem, oracle.module, "cpu", nullcontext, may_shrink=True)
    require_trainable(oracle, sources)
    made = list(training_rounds(oracle, sources, {}))
    # Of a mask in which a row is hidden whole, the answer is NaN.
    assert {item.name for each in made for item in each.dropped} <= {"one_truth"}
    tried = {trial.probe for each in made for trial in each.trials}
    assert tried >= {"times30", "rowaffine"}
    assert tried & {"structures", "row_patterns", "mixed_rows", "beside_numbers", "mask_shapes"}


def test_a_module_without_gradients_is_a_problem(tmp_path: Path) -> None:
    text = "    def forward(self, x):\n        return x.argmax(-1)\n"
    with pytest.raises(ProblemError, match="--train: nothing the forward returns has a gradient"):
        _asked_to_train(tmp_path / "index.py", text + _INPUTS)
