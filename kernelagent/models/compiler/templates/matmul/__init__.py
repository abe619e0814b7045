"""Matrix products: found in a program, priced, and written as kernels with what follows them."""
