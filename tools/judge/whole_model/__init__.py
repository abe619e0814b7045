"""Whole models: which submodules matter, and whether the model is right with parts replaced."""
