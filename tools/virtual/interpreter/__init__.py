"""Triton's language executed on numpy arrays, program by program; `batched` runs all programs at once."""
