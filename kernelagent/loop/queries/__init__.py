"""Questions to models: prompts go out, replies and calls of tools come in, each within its budget."""
