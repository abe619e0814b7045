"""Kernels that must be accepted, however suspicious they look."""
