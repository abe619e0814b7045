"""All programs of a launch at once: the interpreter with one more, leading axis for the programs."""
