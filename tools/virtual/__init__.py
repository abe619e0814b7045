"""The `virtual` device, a simulated GPU: kernels are really compiled for it and interpreted on the CPU."""
