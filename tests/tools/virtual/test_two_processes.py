"""A candidate whose Python runs in one process and whose kernels run in another."""

from __future__ import annotations

import pytest

from kernelagent.tools.judge.source_reading.installed import installed_triton, missing_from_language

pytestmark = pytest.mark.long

SOURCE = """
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

print("the candidate is imported")
FACTOR: tl.constexpr = tl.constexpr(2.0)
PLAIN = 3


@triton.jit
def scaled(x):
    return x * FACTOR


@triton.jit
def scale(x_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    mask = at < n
    tl.store(o_ptr + at, scaled(tl.load(x_ptr + at, mask=mask)), mask=mask)


def run_scale(x):
    out = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), B=256)
    return out


class Holder:
    @staticmethod
    @triton.jit
    def inside_a_class(o_ptr, ACT: tl.constexpr):
        tl.store(o_ptr, ACT(tl.load(o_ptr)))


def make():
    @triton.jit
    def inside_a_function(o_ptr):
        tl.store(o_ptr, 7.0)

    return inside_a_function


@triton.jit
def uses_plain_global(o_ptr):
    tl.store(o_ptr, PLAIN)


@triton.jit
def small_dot(o_ptr):
    a = tl.full((8, 4), 1.0, tl.float16)
    b = tl.full((4, 8), 1.0, tl.float16)
    at = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(o_ptr + at, tl.dot(a, b))


@triton.jit
def undefined_name(o_ptr):
    x = tl.load(o_ptr)
    tl.store(o_ptr, x + nowhere)


@triton.jit
def by_block_pointer(o_ptr):
    block = tl.make_block_ptr(o_ptr, (8,), (1,), (0,), (8,), (0,))
    tl.store(block, tl.load(block))


@triton.jit
def in_the_library(o_ptr):
    x = tl.load(o_ptr).to(tl.bfloat16)
    tl.store(o_ptr, tl.sigmoid(x))


@triton.jit
def its_helper(x):
    return x + lost


@triton.jit
def in_a_helper(o_ptr):
    tl.store(o_ptr, its_helper(tl.load(o_ptr)))


@triton.jit
def big_dot(a_ptr, b_ptr, o_ptr, K, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), tl.float32)
    for k in range(K):
        total += tl.dot(tl.load(a_ptr + at + k * N * N), tl.load(b_ptr + at + k * N * N))
    tl.store(o_ptr + at, total)


@triton.autotune(configs=[triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["B"] == 0})
@triton.jit
def tuned(x_ptr, o_ptr, n, B: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    if EVEN:
        tl.store(o_ptr + at, tl.load(x_ptr + at) + 1)
    else:
        tl.store(o_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1, mask=at < n)


def run_tuned(x):
    out = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, out, x.numel())
    return out


@triton.jit
def with_descriptor(desc, o_ptr, M: tl.constexpr, N: tl.constexpr):
    block = desc.load([0, 0])
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o_ptr + at, block * 2)


@triton.jit
def with_tuple(pair, o_ptr):
    tl.store(o_ptr, tl.load(pair[0]) + tl.load(pair[1]))


@triton.jit
def with_tuple_past_the_end(x_ptr, y_ptr):
    at = tl.arange(0, 64)
    tl.store(x_ptr + at, tl.load(y_ptr + at % 16))


@triton.jit
def with_none(x_ptr, bias_ptr, o_ptr):
    value = tl.load(x_ptr)
    if bias_ptr is not None:
        value += tl.load(bias_ptr)
    tl.store(o_ptr, libdevice.tanh(value))


@triton.jit
def fills(o_ptr, value, B: tl.constexpr):
    tl.store(o_ptr + tl.program_id(0) * B + tl.arange(0, B), value)


@triton.jit
def chatter(o_ptr):
    print("value", tl.load(o_ptr))


@triton.jit
def spin(o_ptr):
    while tl.load(o_ptr) == 0:
        pass


@triton.jit
def claims(o_ptr):
    tl.assume(tl.load(o_ptr) > 0)


@triton.jit
def assembly(o_ptr):
    x = tl.load(o_ptr)
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)
    tl.store(o_ptr, y)
"""

BODY = """
from kernelagent.tools.virtual.device.driver import LaunchRefused
from candidate import *

found = {}

def log():
    rows = judge_asks(kind="log")["launches"]
    judge_asks(kind="reset")
    return rows

def refusal(call):
    log()
    try:
        call()
    except Exception as error:
        return {
            "type": [kind.__name__ for kind in type(error).__mro__],
            "text": str(error),
            "code": getattr(error, "code", None),
        }
    return None

x = torch.randn(1000)
out = run_scale(x)
found["scale"] = bool(torch.equal(out, 2 * x))
found["scale_log"] = log()
flag = torch.full((1,), 4.0)
Holder.inside_a_class[(1,)](flag, ACT=scaled)
found["class"] = flag.item()
kernel = make()
kernel[(1,)](flag)
found["nested"] = flag.item()
found["view"] = run_scale(torch.arange(2001.0)[1:])[-1].item()
found["tuned"] = [bool(torch.equal(run_tuned(v), v + 1)) for v in (torch.randn(256), torch.randn(100))]
found["tuned_log"] = log()
matrix, out = torch.randn(8, 16), torch.empty(16, 16)
with_descriptor[(1,)](TensorDescriptor.from_tensor(matrix, [16, 16]), out, 16, 16)
found["descriptor"] = bool(torch.equal(out[:8], matrix * 2)) and out[8:].abs().max().item() == 0
out = torch.zeros(1)
with_tuple[(1,)]((torch.ones(1), torch.full((1,), 2.0)), out)
found["tuple"] = out.item()
with_none[(1,)](torch.ones(1), None, out)
found["none"] = out.item()
out = torch.zeros(16, dtype=torch.bfloat16)
fills[(2,)](out, 1.5, 8)
found["float"] = out.tolist()
log()
chatter[(600,)](torch.zeros(1))
found["chatter"] = len(str(log()))

found["plain"] = refusal(lambda: uses_plain_global[(1,)](out))
found["dot"] = refusal(lambda: small_dot[(1,)](torch.zeros(64)))
found["undefined"] = refusal(lambda: undefined_name[(1,)](out))
found["block_pointer"] = refusal(lambda: by_block_pointer[(1,)](out))
found["library"] = refusal(lambda: in_the_library[(1,)](out))
found["helper"] = refusal(lambda: in_a_helper[(1,)](out))
found["keyword"] = refusal(lambda: scale[(1,)](x, x, 1000, B=256, num_wraps=8))
found["warps"] = refusal(lambda: scale[(1,)](x, x, 1000, B=256, num_warps=3))
found["many_warps"] = refusal(lambda: scale[(1,)](x, x, 1000, B=4096, num_warps=64))
square = torch.zeros(128, 128)
found["shared"] = refusal(lambda: big_dot[(1,)](square, square, square, 2, 128, num_stages=4))
found["grid_y"] = refusal(lambda: fills[(1, 70000)](out, 1.0, 8))
found["grid_zero"] = refusal(lambda: fills[(0,)](out, 1.0, 8))
found["grid_zero_log"] = log()
found["grid_negative"] = refusal(lambda: fills[(-1,)](out, 1.0, 8))
found["bounds"] = refusal(lambda: fills[(3,)](out, 1.0, 8))
found["bounds_log"] = log()
pair = torch.zeros(16), torch.zeros(16)
found["neighbour"] = refusal(lambda: with_tuple_past_the_end[(1,)](*pair))
found["race"] = refusal(lambda: fills[(1,)](out, 1.0, 8)) or "none"
found["claims"] = refusal(lambda: claims[(1,)](torch.zeros(1)))
found["assembly"] = refusal(lambda: assembly[(1,)](torch.ones(1)))

def dynamically_made():
    space = {"tl": tl, "triton": triton}
    import linecache
    text = "@triton.jit\\ndef foreign(o_ptr):\\n    tl.store(o_ptr, 1.0)\\n"
    linecache.cache["elsewhere.py"] = (len(text), None, text.splitlines(True), "elsewhere.py")
    exec(compile(text, "elsewhere.py", "exec"), space)
    space["foreign"][(1,)](out)

found["foreign"] = refusal(dynamically_made)

judge_asks(kind="mode", mode="poison")
found["poison"] = [run_scale(x).isnan().all().item()]
whole = torch.zeros(8, dtype=torch.int32)
fills[(1,)](whole, 5, 8)
found["poison"].append(whole.tolist())
judge_asks(kind="mode", mode="suppress")
before = torch.zeros(8)
fills[(1,)](before, 5.0, 8)
found["suppress"] = before.tolist()
judge_asks(kind="mode", mode="execute")
found["again"] = bool(torch.equal(run_scale(x), 2 * x))

import time
best = 1.0
for _ in range(20):
    began = time.perf_counter()
    run_scale(x)
    rows = log()
    took = time.perf_counter() - began
    best = min(best, took - rows[0]["interpret_s"])
found["overhead_s"] = best
judge_asks(kind="mode", mode="account")
judge_asks(kind="observe", bounds=True, races=False, traffic=False)
meta = torch.empty(1 << 28, device="meta")
run_scale(meta)
found["account"] = log()[0]
judge_asks(kind="mode", mode="execute")
judge_asks(kind="observe", bounds=True, races=True, traffic=False)
found["spin"] = refusal(lambda: spin[(1,)](torch.zeros(1)))
show(found)
"""


@pytest.fixture(scope="module")
def found(in_two_processes):
    outcome = in_two_processes(SOURCE, BODY, seconds=6.0)
    assert outcome.shown, outcome.errors[-3000:]
    return outcome.shown[-1]


@pytest.mark.parametrize("what", ["scale", "descriptor", "again"])
def test_kernels_compute_what_they_say(found, what):
    assert found[what] is True


def test_the_log_tells_kernel_line_grid_and_tensors(found):
    (row,) = found["scale_log"]
    assert row["kernel"] == "scale"
    assert "def scale(" in "\n".join(SOURCE.splitlines()[row["line"] - 1 : row["line"] + 1])
    assert row["grid"] == [4, 1, 1]
    assert row["constexprs"] == {"B": 256}
    assert [(t["name"], t["shape"]) for t in row["tensors"]] == [
        ("x_ptr", [1000]),
        ("o_ptr", [1000]),
    ]
    assert row["options"]["num_warps"] == 4
    assert row["interpret_s"] > 0
    assert row["compile_s"] > 0


def test_kernels_in_classes_and_functions_are_found(found):
    assert (found["class"], found["nested"]) == (8.0, 7.0)


def test_a_shifted_view_is_read_from_its_own_place(found):
    assert found["view"] == 4000.0


def test_autotuned_kernels_run_their_first_configuration_with_heuristics(found):
    assert found["tuned"] == [True, True]
    assert [row["constexprs"] for row in found["tuned_log"] if row["kernel"] == "tuned"] == [
        {"B": 64, "EVEN": True},
        {"B": 64, "EVEN": False},
    ]


def test_tuples_none_and_float_arguments_reach_the_kernel(found):
    assert found["tuple"] == 3.0
    assert found["none"] == pytest.approx(0.76159, abs=1e-4)
    assert found["float"] == [1.5] * 16


def test_what_kernels_print_is_capped(found):
    assert found["chatter"] < 10000


@pytest.mark.parametrize("what", ["plain", "dot", "undefined"])
def test_what_the_front_end_refuses_is_a_compilation_error(found, what):
    assert "CompilationError" in found[what]["type"]


def test_a_compile_error_names_kernel_line_and_cause(found):
    text = found["undefined"]["text"]
    line = next(i for i, row in enumerate(SOURCE.splitlines(), 1) if "x + nowhere" in row)
    assert "undefined_name" in text
    assert f"line {line}" in text
    assert "nowhere is not defined" in text


@pytest.mark.skipif(
    "make_block_ptr" not in missing_from_language(installed_triton()),
    reason="this Triton has block pointers",
)
def test_a_block_pointer_is_refused_with_the_way_out(found):
    assert (
        "write tl.make_tensor_descriptor, or pointers and masks" in found["block_pointer"]["text"]
    )


@pytest.mark.parametrize(
    ("what", "wrong"), [("library", "tl.sigmoid(x)"), ("helper", "return x + lost")]
)
def test_a_compile_error_inside_something_called_names_the_candidates_own_line(found, what, wrong):
    line = next(i for i, row in enumerate(SOURCE.splitlines(), 1) if wrong in row)
    assert f"does not compile at line {line}: " in found[what]["text"]
    assert wrong in found[what]["text"]


def test_an_unknown_launch_option_is_refused(found):
    assert "num_wraps" in found["keyword"]["text"]


def test_three_warps_are_refused(found):
    assert "power of 2" in found["warps"]["text"]


def test_more_threads_than_a_block_may_have_are_out_of_resources(found):
    assert found["many_warps"]["code"] == "out_of_resources"


def test_too_much_shared_memory_is_out_of_resources_with_numbers(found):
    assert "OutOfResources" in found["shared"]["type"]
    assert "232448" in found["shared"]["text"]


@pytest.mark.parametrize(("what", "size"), [("grid_y", "70000"), ("grid_negative", "-1")])
def test_impossible_grids_are_out_of_resources(found, what, size):
    assert found[what]["code"] == "out_of_resources"
    assert size in found[what]["text"]


def test_a_grid_of_no_programs_is_left_out_as_by_tritons_own_launcher(found):
    assert found["grid_zero"] is None
    assert found["grid_zero_log"] == []


def test_an_access_out_of_bounds_is_refused_and_logged(found):
    assert found["bounds"]["code"] == "out_of_bounds"
    assert found["bounds_log"][-1]["fault"]["code"] == "out_of_bounds"
    assert found["race"] == "none"


def test_an_access_that_would_reach_the_next_argument_is_refused(found):
    assert found["neighbour"]["code"] == "out_of_bounds"
    assert "`x_ptr`" in found["neighbour"]["text"]


def test_what_a_kernel_raises_names_its_line(found):
    line = next(i for i, row in enumerate(SOURCE.splitlines(), 1) if "tl.assume" in row)
    assert found["claims"]["code"] == "runtime_error"
    assert f"line {line}" in found["claims"]["text"]


def test_inline_assembly_is_said_to_be_beyond_the_interpreter(found):
    assert found["assembly"]["code"] == "unverifiable"
    assert "inline assembly" in found["assembly"]["text"]


def test_a_kernel_that_is_not_in_the_text_is_refused(found):
    assert "foreign" in found["foreign"]["text"]
    assert found["foreign"]["code"] == "unverifiable"


def test_poisoned_stores_are_nan_or_a_large_odd_number(found):
    all_nan, numbers = found["poison"]
    assert all_nan is True
    assert all(number % 2 == 1 and number > 1 << 20 for number in numbers)


def test_suppressed_stores_leave_memory_alone(found):
    assert found["suppress"] == [0.0] * 8


def test_accounting_samples_the_grid_of_tensors_without_contents(found):
    row = found["account"]
    assert row["grid"] == [1 << 20, 1, 1]
    assert row["interpret_s"] < 3
    assert row.get("fault") is None


def test_a_launch_costs_milliseconds_beyond_interpretation(found):
    # The target is 3 ms on a quiet machine; on one with three times as many processes as cores it was 8.
    assert found["overhead_s"] < 0.015


def test_a_spinning_kernel_is_cut_and_told_what_to_do(found):
    assert found["spin"]["code"] == "timeout"
    for fact in ("spin", "--inputs", "--device cuda"):
        assert fact in found["spin"]["text"]
