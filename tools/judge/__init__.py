"""The judge: trusted with the user's module; makes inputs, computes the reference, owns the verdict."""
