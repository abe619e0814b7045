"""Kernels that hang on how the interpreter runs programs and lanes, where a GPU may do otherwise."""
