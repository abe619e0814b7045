"""Whether the candidate's own kernels did the work."""
