"""Kernels of other projects, judged as candidates as they stand; nothing of them is kept here."""
