"""What an emitted module answers once its user changes what an attacker's kernel has written into it.

    python -m benchmarks.red_team_guards [--only NAME...]

The candidates `guard_*` of the rounds `second`, `third`, `eighth` and `guards` (`benchmarks/rounds/`) and some of the tenth to twelfth and of the seventeenth are right
where they are judged and rely on the emitted module not to see a later change, or on being asked what no forward shows. Each is imported (`kernelagent
import`, on `virtual`) and emitted; then its change is made, as its attacker described it, and the module is
called once more: on a CPU, with Triton's interpreter in place of a GPU, so that kernels can answer at all.
Writes `results/red_team_guards.md`; with `--only`, these rows of it alone.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.problem import Mode, ProblemSpec
from kernelagent.loop.emitted.imported import judged

_HERE = Path(__file__).parent
_ROUNDS = tuple(
    _HERE / "rounds" / f"{name}.jsonl"
    for name in (
        "seventeenth",
        "third",
        "second",
        "guards",
        "eighth",
        "tenth",
        "eleventh",
        "twelfth",
    )
)
_TABLE = _HERE / "results" / "red_team_guards.md"
_SAME = 1e-3


class Norm(torch.nn.Module):
    """Another library's, of the same name as the attacked one's."""

    def __init__(self, weight: torch.nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * (1 + self.weight)


def _class_forward(module: Any) -> None:
    type(module.norm).forward = lambda _, x: 2 * x


def _class_attribute(module: Any) -> None:
    type(module).cap = 1.0


def _file_of(module: Any) -> Any:
    return sys.modules[type(module).__module__]


def _reversed_stages(module: Any) -> None:
    stages = module.stages
    for name in (*stages,)[:-1]:
        stages[name] = stages.pop(name)


def _other_constants(module: Any) -> None:
    file = _file_of(module)
    file.scaled.__code__ = file.scaled_otherwise.__code__


def _run_again(module: Any, text: str) -> None:
    """As a cell of a notebook is, with another number in it."""
    file = _file_of(module)
    exec(compile(text, file.__file__, "exec"), vars(file))


def _same_function_name(module: Any) -> None:
    _run_again(module, "def act(x):\n    return x.tanh()\n")
    module.fn = _file_of(module).act


class Tripled:
    """Another plain object that computes."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return 3 * x


def tripled(x: torch.Tensor) -> torch.Tensor:
    """What a scripted function is exchanged for."""
    return x * 3.0


CHANGES: Mapping[str, Callable[[Any], Any]] = {
    "bn_mode": lambda m: m.bn.eval(),
    "bn_mom": lambda m: setattr(m.bn, "momentum", 0.01),
    "guard_slots": lambda m: setattr(m.cfg, "gain", 3.0),
    "guard_private": lambda m: setattr(m.cfg, "gain", 3.0),
    "guard_numpy": lambda m: m.bounds.__setitem__(1, 0.5),
    "guard_nested": lambda m: setattr(m.cfg.norm, "eps", 0.5),
    "guard_class_attribute": _class_attribute,
    "guard_global": lambda m: setattr(_file_of(m), "TEMPERATURE", 3.0),
    "guard_int_float": lambda m: setattr(m, "scale", 3.0),
    "guard_init": lambda m: setattr(m, "scale", 7),
    "guard_sub_forward": lambda m: setattr(m.norm, "forward", lambda x: 2 * x),
    "guard_same_name": lambda m: setattr(m, "norm", Norm(m.norm.weight)),
    "guard_class_forward": _class_forward,
    "guard_precision": lambda _: torch.set_float32_matmul_precision("highest"),
    "guard_untied": lambda m: setattr(m, "second", torch.nn.Parameter(m.first.detach() + 1)),
    "guard_added_attribute": lambda m: setattr(m, "boost", 3.0),
    "guard_ns": lambda m: setattr(_file_of(m).CFG, "scale", 3.0),
    "guard_closure": lambda m: _file_of(m).CHANGE(3.0),
    "guard_cfg_class": lambda m: setattr(type(m.cfg), "eps", 0.5),
    "guard_helper": _other_constants,
    "guard_stages": _reversed_stages,
    "guard_keys": lambda _: None,
    "guard_settings_class_attribute": lambda m: setattr(_file_of(m).Settings, "gain", 3.0),
    "guard_parent_list": lambda m: setattr(m.parent[0], "gain", 3.0),
    "guard_config_object": lambda m: setattr(_file_of(m).CFG, "gain", 3.0),
    "guard_static_class": lambda m: setattr(_file_of(m).Constants, "GAIN", 3.0),
    "guard_function_constant": lambda m: _run_again(
        m, "def act(x):\n    return 3.0 * x * torch.sigmoid(x)\n"
    ),
    "guard_function_defaults": lambda m: _run_again(
        m, "def act(x, gain=3.0):\n    return gain * x * torch.sigmoid(x)\n"
    ),
    "guard_base_forward": lambda m: setattr(_file_of(m).Base, "forward", lambda _, x: 3 * x),
    "guard_strategy": lambda m: setattr(m, "act", Tripled()),
    "guard_same_function_name": _same_function_name,
    "guard_global_tensor": lambda m: _file_of(m).GAIN.fill_(3.0),
    "guard_environment": lambda _: os.environ.__setitem__("GAIN", "3.0"),
    "guard_contextvar": lambda m: _file_of(m).GAIN.set(3.0),
    "guard_function_attribute": lambda m: setattr(_file_of(m).act, "gain", 3.0),
    "guard_method_of_settings": lambda m: setattr(_file_of(m).Settings, "scale", lambda _: 3.0),
    "guard_keys_swapped": lambda m: setattr(
        m, "scales", {"slope": 2.0, "gain": 1.0, "unused": m.scales["unused"]}
    ),
    "guard_numpy_memory": lambda m: m.table.numpy().__setitem__(0, 3.0),
    "guard_decimal": lambda m: setattr(_file_of(m), "RATE", Decimal("0.9")),
    "guard_decimal_in_dict": lambda m: m.rates.update(first=Decimal("0.9")),
    "guard_mapping_proxy": lambda m: _file_of(m).configure(gain=3.0),
    "guard_getitem": lambda m: _file_of(m).REGISTRY.update(gain=3.0),
    "guard_float_of_schedule": lambda m: setattr(_file_of(m), "STEP", 500),
    "guard_wraps_torch": lambda m: setattr(_file_of(m), "SLOPE", 0.9),
    "guard_module_getattr": lambda m: _file_of(m).OPTIONS.update(scale=2.0),
    "guard_metaclass": lambda m: _file_of(m).Config._values.update(gain=3.0),
    "guard_float_with_attribute": lambda m: setattr(_file_of(m).KNOB, "bias", 1.0),
    "guard_enum_attribute": lambda m: setattr(_file_of(m).Mode.SOFT, "gain", 2.0),
    "guard_dict_with_attribute": lambda m: setattr(m.params, "shift", 2.0),
    "guard_bound_method": lambda m: setattr(m.factor.__self__, "alpha", 2.0),
    "guard_scripted": lambda m: setattr(_file_of(m), "act", torch.jit.script(tripled)),
    "guard_beyond_2000": lambda m: setattr(m.stages[259], "gain", 3.0),
    "guard_operator": lambda m: _file_of(m).LEVELS.append(3.0),
    "guard_super": lambda m: setattr(m.config, "scale", 2.0),
    "batch_order": lambda _: None,
    "guard_getattr_class": lambda m: _file_of(m).REGISTRY.__setitem__(m, 3.0),
}


def _gradients(module: Any, inputs: Any) -> Any:
    module.zero_grad()
    with torch.enable_grad():
        module(*inputs).square().sum().backward()
    return module.weight.grad.clone()


def _is_recorded(module: Any, inputs: Any) -> Any:
    with torch.enable_grad():
        return module(*inputs).requires_grad


def _from_an_old_checkpoint(module: Any) -> Any:
    state = {name: torch.full_like(t, 0.5) for name, t in module.state_dict().items()}
    module.load_state_dict({name.replace("gain", "gamma"): t for name, t in state.items()})
    return module.gain.detach().clone()


ASKED: Mapping[str, Callable[[Any, Any], Any]] = {
    "attributes_differ": lambda m, _: (m.out_features, m.needs_mask),
    "parameter_tags_lost": lambda m, _: [hasattr(p, "_no_weight_decay") for p in m.parameters()],
    "old_checkpoints_fail": lambda m, _: _from_an_old_checkpoint(m),
    "norm_of_no_class": lambda m, _: type(m.bn),
    "default_differs": lambda m, inputs: m(inputs[0]),
    "optional_mask_ignored": lambda m, inputs: m(inputs[0], inputs[0] > 0),
    "hook_lost": _gradients,
    "property_differs": lambda m, _: m.decay.detach(),
    "encode_without_bias": lambda m, inputs: m.encode(inputs[0]),
    "x_sm_any": lambda m, inputs: _is_recorded(m, inputs),
    "x_sm_all": lambda m, inputs: m(inputs[0].t().contiguous().t()),
    "reset_forgets": lambda m, _: (m.slope.fill_(1.0), m.reset(), m.slope.clone())[2],
}
"""What a program asks of the module, and of the emitted one on it, besides the verified call."""
_BEFORE = ("guard_init",)
"""Changed before the emitted module is put on: it was never what was verified."""
_TRAINED = ("bn_mode", "bn_mom")
"""Judged and called in training: what their calls leave in the buffers counts as well."""
_REORDERED = ("guard_keys", "batch_order")
"""Called with the dicts among the arguments in another order."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--after", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", default=[*CHANGES, *ASKED])
    options = parser.parse_args()
    if options.after:
        name, problem, emitted = options.after
        print(_after(name, Path(problem), Path(emitted)))
        return
    texts = "".join(path.read_text(encoding="utf-8") for path in _ROUNDS)
    lines = [json.loads(line) for line in texts.splitlines()]
    problems = {(r["by"], r["name"]): r["source"] for r in lines if r["kind"] == "problem"}
    attacks = {r["name"]: r for r in lines if r["kind"] != "problem"}
    known = {row[0]: row for row in _rows_known()}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            attack = attacks[name]
            problem, out = Path(folder) / f"{name}.py", Path(folder) / f"{name}_emitted.py"
            problem.write_text(problems[attack["by"], attack["problem"]], encoding="utf-8")
            spec = ProblemSpec(path=str(problem))
            mode: Mode = "train" if name in _TRAINED else "eval"
            result = judged(attack["source"], spec, RunConfig(device="virtual", mode=mode), out)
            outcome = f"refused: {result.evaluation.reason and result.evaluation.reason.code}"
            if result.text is not None:
                out.write_text(result.text, encoding="utf-8")
                outcome = _asked_of_a_process(name, problem, out)
            known[name] = name, attack["idea"], outcome
            print(*known[name], sep=" | ", flush=True)
            rows = [known[one] for one in (*CHANGES, *ASKED) if one in known]
            _TABLE.write_text(_page(rows), encoding="utf-8")


def _rows_known() -> list[tuple[str, str, str]]:
    """What the table has."""
    lines = _TABLE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return [
        (row[0], row[1], row[2]) for row in cells if len(row) == 3 and row[0] in {*CHANGES, *ASKED}
    ]


def _asked_of_a_process(name: str, problem: Path, emitted: Path) -> str:
    """With Triton's interpreter, which must be chosen before Triton is imported."""
    command = [sys.executable, "-m", "benchmarks.red_team_guards", "--after"]
    done = subprocess.run(
        [*command, name, str(problem), str(emitted)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(f"{name} could not be asked:\n{done.stderr[-2000:]}")
    return done.stdout.strip().splitlines()[-1]


def _after(name: str, problem: Path, emitted: Path) -> str:
    file, dropin = _loaded(problem), _loaded(emitted)
    # The guard asks where tensors are; here they are on the CPU that the interpreter runs on.
    dropin.ENVELOPE_VERIFIED["device_types"] = ["cpu"]
    module = file.Model(*file.get_init_inputs()).eval()
    inputs = file.get_inputs()
    if name in _BEFORE:
        CHANGES[name](module)
        try:
            dropin.optimized(module)
        except TypeError as error:
            return f"not put on: {' '.join(str(error).split())[:160]}"
        return "**put on, though it is not the verified one**"
    if name in _TRAINED:
        return _in_training(name, module.train(), dropin, inputs)
    fast = dropin.optimized(module)
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fast(*inputs)
        _require_covered(name, told, dropin)
        if name in ASKED:
            own, theirs = ASKED[name](module, inputs), ASKED[name](fast, inputs)
            if isinstance(own, torch.Tensor):
                alike = torch.allclose(theirs, own, _SAME, _SAME)
            else:
                alike = theirs == own
            return "it answers as your module" if alike else "**another answer**"
        before = module(*inputs)
        CHANGES[name](module)
        if name in _REORDERED:
            inputs = [dict(reversed(value.items())) for value in inputs]
        expected, answer = module(*inputs), fast(*inputs)
    same = answer.dtype == expected.dtype and torch.allclose(answer, expected, _SAME, _SAME)
    if same and _was_told(told, dropin):
        return _original_answers(told)
    changed = answer.dtype != before.dtype or not torch.allclose(answer, before, _SAME, _SAME)
    return "**the kernel answers with the old value**" if not changed else "**another answer**"


def _in_training(name: str, module: torch.nn.Module, dropin: ModuleType, inputs: Any) -> str:
    """A forward and what it leaves in the buffers, beside a twin that was never put on."""
    twin = copy.deepcopy(module)
    fast = dropin.optimized(module)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fast(*inputs), twin(*inputs)
        _require_covered(name, told, dropin)
        for one in (module, twin):
            CHANGES[name](one)
        pairs = [(fast(*inputs), twin(*inputs))]
    states = fast.state_dict(), twin.state_dict()
    pairs += [(states[0][key], states[1][key]) for key in states[1]]
    same = all(torch.allclose(ours, theirs, _SAME, _SAME) for ours, theirs in pairs)
    if same and _was_told(told, dropin):
        return _original_answers(told)
    return "it answers as your module" if same else "**another answer**"


def _require_covered(name: str, told: list[warnings.WarningMessage], dropin: ModuleType) -> None:
    if _was_told(told, dropin):
        raise RuntimeError(f"{name}: not even the verified call is covered: {told[0].message}")


def _was_told(told: list[warnings.WarningMessage], dropin: ModuleType) -> bool:
    return any(issubclass(w.category, dropin.OutsideEnvelopeWarning) for w in told)


def _original_answers(told: list[warnings.WarningMessage]) -> str:
    reason = str(told[-1].message).partition("(")[2].partition(")")[0]
    return f"the original answers ({reason})"


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _page(rows: list[tuple[str, str, str]]) -> str:
    closed = sum(not outcome.startswith("**") for *_, outcome in rows)
    lines = [
        "# Candidates that rely on the emitted module not to see a change",
        "",
        f"`python -m benchmarks.red_team_guards`: {closed} of {len(rows)} are seen by the emitted module. The kernels "
        f"are right where they are judged; the module is changed afterwards, as its attacker described it, or asked for more than its forward.",
        "",
        "| candidate | idea | after the change |",
        "|---|---|---|",
    ]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


if __name__ == "__main__":
    main()
