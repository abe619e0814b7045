"""The runner: the one process that imports a candidate; nothing it reports about itself decides the verdict."""
