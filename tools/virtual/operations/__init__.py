"""Every operation that a rewritten kernel makes: counted, done on memory, converted and rounded as a GPU does it."""
