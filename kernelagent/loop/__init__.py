"""From a problem to its emitted module: one run, its turns, and the same again for an emitted file."""
