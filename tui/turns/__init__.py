"""The screens and lists of turns: the tree, one turn opened, two turns compared."""
