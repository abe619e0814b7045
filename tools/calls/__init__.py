"""A call of a module as data: arguments, results, and what it changes besides."""
