"""The stages in their order; with ten minutes only: 1, 2, 4 and 5."""

from __future__ import annotations

from benchmarks.gpu_first.plan import Stage

_HERE = "benchmarks.gpu_first"
STAGES = (
    Stage(1, "machine", "The machine", 1, f"{_HERE}.machine:look", needs_gpu=False),
    Stage(2, "sandbox", "Which tiers of the sandbox the driver accepts", 2, f"{_HERE}.sandbox:matrix"),
    Stage(3, "ceilings", "doctor, and ceilings beside the data sheet", 1, f"{_HERE}.machine:ceilings"),
    Stage(4, "tests", "The plain tests of tests/gpu", 2, f"{_HERE}.gpu_tests:plain"),
    Stage(5, "optimize", "optimize by relative path, and what a user does next", 4,
          f"{_HERE}.first_runs:optimize"),
    Stage(6, "profiles", "Profiles: CUPTI, graph, counters", 4, f"{_HERE}.first_runs:profiles"),
    Stage(7, "timing", "The judge's times beside triton's, the recorder on and off", 3,
          f"{_HERE}.timing:truth"),
    Stage(8, "certificates", "Certificates: nothing is faster than itself", 3,
          f"{_HERE}.timing:against_itself"),
    Stage(9, "corpora", "doctor --judge --quick: cheats and honest kernels", 8,
          f"{_HERE}.judging:corpora"),
    Stage(10, "hazards", "pure policy, out of bounds, a hang, torch.compile in a candidate", 4,
          f"{_HERE}.judging:hazards"),
    Stage(11, "examples", "The built-in policy over the examples at GPU sizes", 9,
          f"{_HERE}.policy:examples"),
    Stage(12, "kernelbench", "The built-in policy over a folder of KernelBench problems", 9,
          f"{_HERE}.policy:kernelbench"),
    Stage(13, "calibration", "Estimates beside measured times of five operations", 3,
          f"{_HERE}.policy:calibration"),
)  # fmt: skip
"""1 to 10 are the first half hour (at most 32 minutes: the judge gives an endless kernel two of
them); the others are for later calls."""
