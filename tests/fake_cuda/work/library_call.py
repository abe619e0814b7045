"""kernelagent as a library, with a live module and a recorded reply."""

import sys

import torch
from last_token import (  # type: ignore[import-not-found]
    Model,
    get_init_inputs,
    get_inputs,
)

import kernelagent

if __name__ == "__main__":
    module = Model(*get_init_inputs())
    result = kernelagent.optimize(
        module, get_inputs(), model=sys.argv[1], turns=1, device="cuda", runs="library_runs"
    )
    print("faster:", result.faster, "torch", torch.__version__)
    if result.evaluation is not None:
        print(result.evaluation.verdict, result.evaluation.reason)
    sys.exit(0 if result.faster else 1)
