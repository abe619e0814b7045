"""Convolutions, transposed ones included: found in a program, priced, and written as kernels."""
