"""Errors within the budget of an output that rounding does not make, each kind in a file of its own."""
