"""kernelagent as a library, with a live module and a recorded reply."""

import sys

import torch

import kernelagent
from tests.fake_cuda.work.last_token import Model, get_init_inputs, get_inputs

if __name__ == "__main__":
    module = Model(*get_init_inputs())
    found = kernelagent.optimize(
        module, get_inputs(), model=sys.argv[1], turns=1, device="cuda", runs="library_runs"
    )
    print("faster:", found.faster, "torch", torch.__version__)
    sys.exit(0 if found.faster else 1)
