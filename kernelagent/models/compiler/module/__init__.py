"""The candidate's file: its kernels, the host's lines around them, and the constructor of `ModelNew`."""
