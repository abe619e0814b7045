from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import LoadedProblem, load_problem

HEAD = "import torch\nimport torch.nn as nn\n"
MODEL = "class Model(nn.Module):\n    def __init__(self, k=2):\n        super().__init__()\n        self.k = k\n    def forward(self, x):\n        return x * self.k\n"
INPUTS = "def get_inputs():\n    return [torch.rand(4, 3)]\n"


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "problem.py"
    path.write_text(HEAD + text, encoding="utf-8")
    return str(path)


def load(tmp_path: Path, text: str, **names: str) -> LoadedProblem:
    return load_problem(ProblemSpec(path=write(tmp_path, text), **names))


def refusal(tmp_path: Path, text: str, **names: str) -> str:
    with pytest.raises(ProblemError) as caught:
        use(tmp_path, text, names)
    return str(caught.value)


def use(tmp_path: Path, text: str, names: dict[str, str]) -> None:
    problem = load(tmp_path, text, **names)
    problem.build()
    problem.input_sets()


def test_a_kernelbench_file_is_read_as_it_is(tmp_path: Path) -> None:
    problem = load(tmp_path, MODEL + INPUTS + "def get_init_inputs():\n    return [7]\n")
    assert problem.build().k == 7
    ((x,), kwargs) = problem.input_sets()["default"]
    assert x.shape == (4, 3)
    assert kwargs == {}


def test_any_other_file_is_read_with_names(tmp_path: Path) -> None:
    text = MODEL.replace("Model", "Scale") + "def mine():\n    return {'args': [torch.ones(2)]}\n"
    problem = load(tmp_path, text, module="Scale", inputs="mine")
    assert problem.name == "problem:Scale"
    assert problem.input_sets()["default"][0][0].shape == (2,)


def test_several_named_input_sets(tmp_path: Path) -> None:
    text = MODEL + (
        "def get_inputs():\n"
        "    return {'short': [torch.ones(2)], 'long': {'args': (), 'kwargs': {'x': torch.ones(9)}}}\n"
    )
    sets = load(tmp_path, text).input_sets()
    assert list(sets) == ["short", "long"]
    assert sets["long"][1]["x"].shape == (9,)


def test_a_named_input_set_may_be_a_dict_of_the_forwards_own_names(tmp_path: Path) -> None:
    text = MODEL + (
        "def get_inputs():\n"
        "    return {'short': {'x': torch.ones(2)}, 'long': {'x': torch.ones(9)}}\n"
    )
    sets = load(tmp_path, text).input_sets()
    assert {name: kwargs["x"].shape for name, (_, kwargs) in sets.items()} == {
        "short": (2,),
        "long": (9,),
    }


def test_the_only_module_needs_no_name(tmp_path: Path) -> None:
    assert load(tmp_path, MODEL.replace("Model", "Mine") + INPUTS).entry_point == "Mine"


def test_a_class_of_a_library_is_taken_under_the_name_model(tmp_path: Path) -> None:
    text = "from torch.nn import Linear, ReLU\nModel = ReLU\n" + INPUTS
    assert load(tmp_path, text).entry_point == "ReLU"
    assert load(tmp_path, text.replace("Model =", "Mine =")).entry_point == "ReLU"


def test_modules_that_are_only_imported_are_chosen_between_with_module(tmp_path: Path) -> None:
    message = refusal(tmp_path, "from torch.nn import Linear, ReLU\n" + INPUTS)
    assert "imports Linear, ReLU; say which with --module NAME" in message


def test_a_missing_constructor_argument_names_the_function_that_gives_it(tmp_path: Path) -> None:
    text = MODEL.replace("k=2", "n").replace("self.k = k", "self.k = n")
    message = refusal(tmp_path, text + INPUTS)
    assert "missing 1 required positional argument: 'n'" in message
    assert "`get_init_inputs`" in message
    assert "--init NAME" in message


def test_a_missing_import_is_one_sentence_with_the_command_that_installs_it(tmp_path: Path) -> None:
    message = refusal(tmp_path, "import timm_of_no_machine\n" + MODEL + INPUTS)
    assert "`pip install timm_of_no_machine`" in message
    assert "\n" not in message


def test_a_name_beside_forwards_arguments_that_it_does_not_take_is_refused(tmp_path: Path) -> None:
    text = MODEL + "def get_inputs():\n    return {'x': torch.ones(2), 'y': torch.ones(2)}\n"
    assert "a dict with y, which forward does not take; it takes x" in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        (INPUTS, {}, "defines no nn.Module"),
        (MODEL.replace("Model", "A") + MODEL.replace("Model", "B") + INPUTS, {}, "--module NAME"),
        (MODEL + INPUTS, {"module": "Other"}, "found: Model"),
        (MODEL, {}, "--inputs NAME"),
        (MODEL + INPUTS, {"inputs": "nothing"}, "functions found: get_inputs"),
        (MODEL + "get_inputs = 3\n", {}, "not a function"),
        (MODEL + "def get_inputs():\n    return 3\n", {}, "positional arguments"),
        (MODEL + "def get_inputs():\n    return {}\n", {}, "empty dict"),
        (MODEL + INPUTS + "x = (\n", {}, "does not parse"),
        (MODEL + INPUTS + "raise RuntimeError('no luck')\n", {}, "no luck"),
        (MODEL + INPUTS + "import sys\nsys.exit(0)\n", {}, "SystemExit"),
        (MODEL + INPUTS + "def get_init_inputs():\n    return [1, 2, 3]\n", {}, "constructing Model"),
        (MODEL + "def get_inputs():\n    return [torch.rand(2, device='cuda')]\n", {}, "get_inputs()"),
    ],
    ids=[
        "no module", "two modules", "wrong name", "no inputs", "wrong inputs", "not a function",
        "wrong type", "empty", "syntax", "raises", "exits", "wrong init", "absent device",
    ],
)  # fmt: skip
def test_each_wrong_problem_has_its_own_words(
    tmp_path: Path, text: str, names: dict[str, str], said: str
) -> None:
    assert said in refusal(tmp_path, text, **names)


def test_the_traceback_shown_is_the_users_own(tmp_path: Path) -> None:
    message = refusal(tmp_path, MODEL + "def get_inputs():\n    return helper()\n")
    assert "problem.py" in message
    assert "load.py" not in message


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ProblemError, match=r"no file nowhere\.py"):
        load_problem(ProblemSpec(path="nowhere.py"))


def test_a_module_by_name_is_imported() -> None:
    with pytest.raises(ProblemError, match=r"defines no nn\.Module|get_inputs"):
        load_problem(ProblemSpec(import_name="json"))


def test_the_source_shown_holds_the_class(tmp_path: Path) -> None:
    assert "class Model" in load(tmp_path, MODEL + INPUTS).source


def test_inputs_are_drawn_anew_each_time(tmp_path: Path) -> None:
    problem = load(tmp_path, MODEL + INPUTS)
    item, two = (problem.input_sets()["default"][0][0] for _ in range(2))
    assert not torch.equal(item, two)
