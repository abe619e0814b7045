"""What a model writes, read: fenced blocks, syntax, and calls of tools with their answers."""
