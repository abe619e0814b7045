"""Measures the ceilings anew, as a judge's process does on a machine it does not know."""

import os
import sys
import tempfile

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        import torch

        from kernelagent.tools.judge.problem.devices import open_device

        open_device("cuda", "sm_90")
    kept = torch.cuda.memory_reserved()
    print("free" if kept < 64 << 20 else f"{kept} bytes are kept")
    sys.exit(0 if kept < 64 << 20 else 1)
