"""The `virtual` device: a GPU that is not there. Kernels are compiled for it for real and executed on the CPU."""
