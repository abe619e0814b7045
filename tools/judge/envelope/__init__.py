"""Which inputs a verdict holds for, and how far beyond the given ones."""
