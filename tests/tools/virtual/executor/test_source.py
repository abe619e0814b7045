"""What of a candidate's text reaches the executor, and what cannot."""

from __future__ import annotations

import textwrap

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.errors import UnsupportedLanguageConstruct

from kernelagent.tools.virtual.executor.source import KernelSource, OtherText, UnknownKernel
from kernelagent.tools.virtual.executor.vocabulary import Refused
from kernelagent.tools.virtual.triton_versions import place_of

HEAD = "import triton\nimport triton.language as tl\n"


def _kernel(body, head=HEAD):
    return f"{head}@triton.jit\ndef k(x_ptr, B: tl.constexpr = 4):\n    {body}\n"


def _load(text, constants=None, name="k"):
    source = KernelSource(text)
    line = text.split(f"def {name}(")[0].count("\n")
    return source.load(constants or {}).function(name, line)


def test_only_jit_functions_are_taken(tmp_path):
    mark = tmp_path / "mark"
    text = f"open({str(mark)!r}, 'w')\n" + _kernel("tl.store(x_ptr, 1)")
    assert _load(text).fn.__name__ == "k"
    assert not mark.exists()


def test_lines_stay_the_candidate_s():
    text = "\n\n# a comment\n" + _kernel("tl.store(x_ptr, 1)")
    assert place_of(_load(text))[1] == text[: text.index("def k")].count("\n") + 1


@pytest.mark.parametrize(
    "body",
    [
        "tl.core.builtins.exec('1')",
        "tl.core.inspect.os.system('true')",
        "triton.knobs.os.system('true')",
        "triton.runtime.jit.os",
        "x_ptr.handle.data.tofile('x')",
        "getattr(tl, 'core')",
        "().__class__.__base__.__subclasses__()",
        "tl.sum.fn.__globals__",
        "tl.core.x = 1",
        "import os",
        "y = tl.core",
        "f = lambda: 1",
        "tl.store(x_ptr, (yield))",
        "__import__('os')",
    ],
)
def test_python_beyond_triton_is_refused(body):
    with pytest.raises(Refused, match="line 5"):
        _load(_kernel(body))


def test_a_default_value_is_not_a_way_to_run_python(tmp_path):
    mark = tmp_path / "mark"
    text = f"{HEAD}@triton.jit\ndef k(x_ptr, B=open({str(mark)!r}, 'w')):\n    pass\n"
    with pytest.raises(Refused):
        _load(text)
    assert not mark.exists()


def test_an_annotation_is_not_a_way_to_run_python(tmp_path):
    mark = tmp_path / "mark"
    text = f"{HEAD}@triton.jit\ndef k(x_ptr: open({str(mark)!r}, 'w')):\n    pass\n"
    _load(text)
    assert not mark.exists()


def test_a_decorator_is_not_a_way_to_run_python(tmp_path):
    mark = tmp_path / "mark"
    text = f"{HEAD}@triton.jit(repr=open({str(mark)!r}, 'w'))\ndef k(x_ptr):\n    pass\n"
    _load(text)
    assert not mark.exists()


@pytest.mark.parametrize("separator", ["\x0c", "\x1c", "\u2028", "\r"])
def test_odd_line_separators_do_not_shift_what_is_run(tmp_path, separator):
    mark = tmp_path / "mark"
    harm = f"open({str(mark)!r}, 'w')"
    text = f'{HEAD}"""{separator * 3}"""\n{harm}\n{harm}\n{harm}\n' + _kernel("pass", head="")
    definition = text.split("def k(")[0].replace("\r", "\n").count("\n")
    assert KernelSource(text).load({}).function("k", definition).fn.__name__ == "k"
    assert not mark.exists()


@pytest.mark.parametrize(
    "line",
    ["import os", "from os import system", "from triton.language.core import builtins as os"],
)
def test_imports_other_than_triton_and_math_are_not_there(line):
    with pytest.raises(Refused):
        _load(_kernel("os.system('true')", head=f"{HEAD}{line}\n"))


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("from triton.language.extra import libdevice", "libdevice.tanh(1.0)"),
        ("from triton.language.extra.cuda import libdevice as lib", "lib.tanh(1.0)"),
        ("from triton.language import exp", "exp(1.0)"),
        ("import math", "math.sqrt(2.0)"),
        ("import torch", "torch.version.hip is not None"),
        ("import torch", "torch.inf"),
        ("tanh = tl.extra.cuda.libdevice.tanh", "tanh(1.0)"),
        ("", "tl.zeros((4,), tl.float32).to(tl.core.get_int_dtype(bitwidth=32, signed=True), bitcast=True)"),
        ("try:\n    from triton.language.nowhere import x\nexcept ImportError:\n    x = 1", "tl.zeros((4,), tl.float32).to(tl.bfloat16)"),
    ],
    ids=["stub", "cuda", "function", "math", "other GPUs", "infinity", "alias", "types", "missing"],
)  # fmt: skip
def test_the_ways_to_name_triton_s_functions_work(line, call):
    assert _load(_kernel(f"y = {call}", head=f"{HEAD}{line}\n")).fn.__name__ == "k"


@pytest.mark.parametrize(
    "named",
    [
        "torch.version.cuda",
        "torch.version.git_version",
        "torch.sum",
        "torch.os.sep",
        "torch.version",
        "torch",
    ],
)
def test_of_torch_a_kernel_may_name_what_is_the_same_everywhere_and_no_function(named):
    with pytest.raises(Refused):
        _load(_kernel(f"y = {named}", head=f"{HEAD}import torch\n"))


def test_constants_are_data_from_the_runner():
    text = _kernel("tl.store(x_ptr, N)")
    kernel = _load(text, {"N": {"constexpr": 7}})
    assert kernel.fn.__globals__["N"].value == 7


def test_two_kernels_of_one_name_are_told_apart_by_their_scope():
    text = HEAD + "".join(
        f"def make{i}():\n    @triton.jit\n    def k(x_ptr):\n        tl.store(x_ptr, {i})\n"
        for i in range(2)
    )
    source = KernelSource(text)
    result = [source.load({}).function("k", line) for line in (4, 8)]
    assert ["store(x_ptr, 0)" in result[0].src, "store(x_ptr, 1)" in result[1].src] == [True, True]


def test_a_refusal_in_a_function_that_is_called_is_told():
    text = f"{HEAD}@triton.jit\ndef helper():\n    import os\n" + _kernel("helper()", head="")
    with pytest.raises(Refused, match="helper"):
        _load(text)


def test_an_unknown_kernel_is_named():
    with pytest.raises(UnknownKernel, match="nothing"):
        KernelSource(_kernel("pass")).load({}).function("nothing", 3)


def test_a_text_that_is_no_python_has_no_kernels():
    with pytest.raises(UnknownKernel):
        KernelSource("def (").load({}).function("k", 1)


TWO_FACTORIES = f"""{HEAD}
def first():
    @triton.jit
    def helper(x):
        return x + 1
    return helper

def second():
    @triton.jit
    def helper(x):
        return x * 2
    return helper
"""


def test_helpers_of_one_name_keep_the_names_by_which_triton_tells_them_apart():
    source = KernelSource(TWO_FACTORIES)
    module = source.load({})
    lines = [
        n for n, line in enumerate(TWO_FACTORIES.split("\n"), start=1) if "@triton.jit" in line
    ]
    names = [module.function("helper", line).fn.__qualname__ for line in lines]
    assert names == ["first.<locals>.helper", "second.<locals>.helper"]


BOUND_TWICE = f"""{HEAD}from triton.language import sum as total

def never():
    from triton.language import max as total
    return total

@triton.jit
def k(x_ptr):
    tl.store(x_ptr, total(tl.load(x_ptr + tl.arange(0, 4))))
"""


@pytest.mark.parametrize(("member", "means"), [("sum", tl.sum), ("max", tl.max)])
def test_a_name_that_the_text_binds_twice_means_what_it_means_where_the_kernel_is_launched(
    member, means
):
    named = {"total": {"library": ["triton.language.standard", member]}}
    assert _load(BOUND_TWICE, named).fn.__globals__["total"] is means


@pytest.mark.parametrize(
    "named",
    [
        {"unknown": "Thing"},
        {"library": ["os", "system"]},
        {"library": ["triton.language.core", "builtins"]},
    ],
)
def test_a_name_that_means_nothing_that_is_known_means_nothing(named):
    assert "total" not in _load(BOUND_TWICE, {"total": named}).fn.__globals__


def _of_fields(text, *fields):
    source = KernelSource(text)
    return source.load({}, frozenset(fields)).function("k", text.split("def k(")[0].count("\n"))


def test_the_names_of_a_named_tuple_s_fields_may_be_said():
    assert _of_fields(_kernel("tl.store(x_ptr.ptr, x_ptr.n)"), "ptr", "n")


@pytest.mark.parametrize(
    "body",
    [
        "x_ptr.handle.data",
        "tl.sum.fn.run",
        "x_ptr.__class__",
        "''.format(x_ptr)",
        "x_ptr.gi_frame.f_globals",
    ],
)
def test_a_field_of_a_name_that_leads_elsewhere_stays_refused(body):
    names = "handle data fn run __class__ format gi_frame f_globals".split()
    with pytest.raises(Refused, match="line 5"):
        _of_fields(_kernel(body), *names)


def test_where_block_pointers_are_gone_the_place_that_makes_one_is_named_with_what_to_use():
    if hasattr(tl, "advance"):
        pytest.skip("this Triton has block pointers")
    body = "a = tl.make_block_ptr(x_ptr, (4,), (1,), (0,), (4,), (0,))\n    a = tl.advance(a, (4,))"
    with pytest.raises(Refused, match=r"line 5: .*tl.make_block_ptr.*make_tensor_descriptor"):
        _load(_kernel(body))


def test_what_a_constant_branch_raises_is_left_to_the_compiler():
    text = _kernel(
        "if B == 4:\n        tl.store(x_ptr, 1)\n    else:\n        raise ValueError('no')"
    )
    made = _load(text)
    target = GPUTarget("cuda", 90, 32)
    triton.compile(ASTSource(made, {"x_ptr": "*fp32", "B": "constexpr"}, {(1,): 4}), target=target)
    with pytest.raises(UnsupportedLanguageConstruct, match="Raise"):
        triton.compile(
            ASTSource(made, {"x_ptr": "*fp32", "B": "constexpr"}, {(1,): 8}), target=target
        )


def test_a_name_means_in_a_kernel_what_it_means_in_the_process():
    text = (
        f"{HEAD}@triton.jit\ndef exp(x):\n    return x\n\n\n"
        "@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, exp(tl.load(x_ptr)))\n"
    )
    assert _load(text).fn.__globals__["exp"].fn.__name__ == "exp"
    of_tritons = {"exp": {"library": ["triton.language.math", "sqrt"]}}
    assert _load(text, of_tritons).fn.__globals__["exp"] is tl.math.sqrt


OF_CONSTANTS = f"""{HEAD}
@triton.constexpr_function
def table(n):
    parts = [str(i) for i, _ in enumerate(reversed(range(n)))]
    return sum(int(a) * b for a, b in zip(parts, map(float, sorted(parts))))


@triton.jit
def k(x_ptr):
    tl.store(x_ptr, table(3))
"""


def test_functions_of_constants_have_pythons_own_tables():
    assert _load(OF_CONSTANTS).fn.__globals__["table"](3) == 5.0


def test_a_constant_that_is_a_function_is_called_as_the_compiler_calls_it():
    text = OF_CONSTANTS.replace("triton.constexpr_function", "tl.constexpr")
    made = _load(text).fn.__globals__["table"]
    assert isinstance(made, tl.constexpr)
    assert made(3) == 5.0
    with pytest.raises(Refused, match="builtins"):
        _load(text.replace("    return sum", "    tl.core.builtins.exec('1')\n    return sum"))


HELPED = OF_CONSTANTS.replace("    parts =", "    n = plain(n)\n    parts =").replace(
    "@triton.constexpr_function",
    "def plain(o):\n    return o.value if isinstance(o, tl.constexpr) else o\n\n\n@tl.constexpr",
)


def test_a_function_of_constants_may_call_plain_ones_and_a_kernel_may_not():
    assert _load(HELPED).fn.__globals__["table"](3) == 5.0
    assert "plain" not in _load(HELPED).fn.__globals__
    with pytest.raises(UnknownKernel):
        _load(HELPED, name="plain")


@pytest.mark.parametrize(
    "again",
    [
        "table = print\n",
        "if True:\n    table = print\n",
        "def other():\n    global table\n    table = print\n",
        "from os import getpid as table\n",
        "def plain(o):\n    return 4\n",
        "with open('x') as plain:\n    pass\n",
    ],
)
@pytest.mark.parametrize("maker", ["triton.constexpr_function", "tl.constexpr"])
def test_what_is_computed_at_compile_time_has_a_name_for_nothing_else(maker, again):
    text = HELPED.replace("@tl.constexpr\n", f"@{maker}\n")
    with pytest.raises(Refused, match="stands for something else"):
        _load(text + again)


def test_a_local_variable_of_its_name_is_nobodys_business():
    text = HELPED + "def other():\n    table = plain = 1\n    return table, plain\n"
    assert _load(text).fn.__globals__["table"](3) == 5.0


@pytest.mark.parametrize(
    "body", ["open('name')", "o.__class__", "tl.core.builtins.exec('1')", "getattr(o, 'value')"]
)
def test_a_plain_function_that_reaches_elsewhere_is_refused_with_who_calls_it(body):
    text = HELPED.replace("    return o.value", f"    {body}\n    return o.value")
    made = KernelSource(text).load({})
    line = text.split("def k(")[0].count("\n")
    try:
        made.function("k", line).fn.__globals__["table"](3)
    except (Refused, NameError):
        return
    raise AssertionError(body)


@pytest.mark.parametrize("maker", ["triton.constexpr_function", "tl.constexpr"])
def test_a_function_of_constants_may_not_remember_in_a_table_within_a_tuple(maker):
    text = OF_CONSTANTS.replace("triton.constexpr_function", maker)
    text = text.replace("    parts =", "    KEPT[0].append(n)\n    parts =")
    made = _load(text, {"KEPT": {"tuple": [{"list": []}]}}).fn.__globals__["table"]
    with pytest.raises(ValueError, match="changes a list"):
        made(3)


IN_BRANCHES = f"""{HEAD}
if triton.__version__ >= "3":
    @triton.jit
    def helper(x):
        return tl.log(x)
else:
    @triton.jit
    def helper(x):
        return tl.math.of_an_older_triton(x)


@triton.jit
def k(x_ptr):
    tl.store(x_ptr, helper(tl.load(x_ptr)))
"""
FIRST, SECOND = 5, 9


def test_of_two_definitions_the_one_counts_that_the_name_has_where_the_kernel_is_launched():
    kernel = _load(IN_BRANCHES, {"helper": {"function": ["helper", FIRST]}})
    assert "tl.log" in kernel.fn.__globals__["helper"].src


@pytest.mark.parametrize("constants", [{}, {"helper": {"function": ["helper", SECOND]}}])
def test_a_definition_that_may_be_meant_is_refused_for_what_it_says(constants):
    with pytest.raises(Refused, match="of_an_older_triton"):
        _load(IN_BRANCHES, constants)


def test_a_name_with_a_value_that_was_not_sent_has_none_of_the_text_s_definitions():
    for named in ({"unknown": "Thing"}, {"function": ["table", 4]}):
        kept = _load(OF_CONSTANTS, {"table": named}).fn.__globals__.get("table")
        assert (kept is None) == ("unknown" in named)


def test_a_function_of_constants_that_is_another_than_the_text_s_is_refused():
    with pytest.raises(UnknownKernel, match="other"):
        _load(OF_CONSTANTS, {"table": {"function": ["other", 7]}})


IN_A_BRANCH = f"""{HEAD}
@triton.jit
def helper(x):
    return tl.math.of_an_older_triton(x)


@triton.jit
def k(x_ptr, OLD: tl.constexpr):
    x = tl.load(x_ptr)
    if OLD:
        x = helper(x)
    tl.store(x_ptr, x)
"""


def test_a_helper_that_only_a_branch_calls_is_refused_where_the_kernel_gets_to_it():
    helper = _load(IN_A_BRANCH).fn.__globals__["helper"]
    with pytest.raises(ValueError, match=r"`helper`: line 6: .*of_an_older_triton"):
        helper(1)


def test_what_decides_about_a_branch_is_in_none():
    text = IN_A_BRANCH.replace("if OLD:", "if helper(OLD):")
    with pytest.raises(Refused, match="of_an_older_triton"):
        _load(text)


WITHIN = '''
def built():
    @triton.jit
    def k(x_ptr):
        """One line,

        and others.
        """
        tl.store(x_ptr, {stored})

    return k
'''


def test_a_kernel_within_a_function_is_the_text_that_triton_moves_to_the_left():
    text = HEAD + WITHIN.format(stored=1)
    source = KernelSource(text)
    line = text.split("def k(")[0].count("\n")
    compiled = textwrap.dedent(text[text.index("    def k(") : text.index("    return")])
    source.require_texts([("k", line, compiled)])
    with pytest.raises(OtherText):
        source.require_texts(
            [("k", line, compiled.replace("tl.store(x_ptr, 1)", "tl.store(x_ptr, 2)"))]
        )
    with pytest.raises(OtherText):
        source.require_texts([("k", line, compiled.replace("others", "other things"))])
    assert place_of(source.load({}).function("k", line))[1] == line + 1


REBOUND = f"""{HEAD}
@triton.jit
def total(x):
    return x


total = tl.sum


@triton.jit
def k(x_ptr):
    tl.store(x_ptr, total(tl.load(x_ptr + tl.arange(0, 4))))
"""


def test_a_name_that_stands_for_triton_s_own_function_has_none_of_the_text_s_definitions():
    kernel = _load(REBOUND, {"total": {"library": ["triton.language.standard", "sum"]}})
    assert kernel.fn.__globals__["total"] is tl.sum
    assert kernel.fn.__globals__["total"] is not _load(REBOUND).fn.__globals__["total"]
