"""Inductor's kernels rewritten as a person would write them."""
