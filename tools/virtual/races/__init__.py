"""Which accesses a GPU may do in another order than the interpreter, and which lie outside their memory."""
