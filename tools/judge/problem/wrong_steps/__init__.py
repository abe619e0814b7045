"""A reference with one of its steps done wrong: which of these no call tells from the right one, and calls that do."""
