"""What Inductor's generated file says, as steps."""

from __future__ import annotations

import ast

from kernelagent.models.compiler.program.program import Size, Torch, parse_program

TWICE = """
class Runner:
    def call(self, args):
        arg0_1, = args
        s0 = arg0_1_size[0]
        some_kernel_0_xnumel = 3 * s0
        extern_kernels.first(arg0_1, some_kernel_0_xnumel)
        some_kernel_0_xnumel = 4 * s0
        extern_kernels.second(arg0_1, some_kernel_0_xnumel)
        return (arg0_1,)
"""


def test_a_number_that_is_assigned_again_is_another_number() -> None:
    program = parse_program(TWICE, "a test")
    sizes = {step.name: ast.unparse(step.value) for step in program.steps if isinstance(step, Size)}
    used = [ast.unparse(step.statement) for step in program.steps if isinstance(step, Torch)]
    assert sizes == {
        "s0": "arg0_1_size[0]",
        "some_kernel_0_xnumel": "3 * s0",
        "some_kernel_0_xnumel_2": "4 * s0",
    }
    assert used == [
        "extern_kernels.first(arg0_1, some_kernel_0_xnumel)",
        "extern_kernels.second(arg0_1, some_kernel_0_xnumel_2)",
    ]
