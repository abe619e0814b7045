"""The runner: the one process that imports a candidate; everything it says is evidence, never the verdict."""
