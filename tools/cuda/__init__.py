"""The `cuda` device: the local GPU, measured."""
