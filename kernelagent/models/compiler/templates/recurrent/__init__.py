"""Recurrent layers: each step of all layers, or of both directions, in one launch."""
