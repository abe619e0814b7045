"""Numbers as a GPU computes them: formats, rounding, sums in trees, libdevice. No memory, no control flow."""
