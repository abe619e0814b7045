"""Whether a problem can be checked at all, asked before any candidate is judged."""
