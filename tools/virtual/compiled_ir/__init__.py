"""Executes a compiled kernel's Triton IR, and says where it stores otherwise than the interpreted text."""
