"""The built-in policy: TorchInductor's kernels rewritten as plain Triton, then tuned. Needs no LLM."""
