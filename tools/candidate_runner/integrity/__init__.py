"""What a candidate may not change or leave behind in its process: others' functions, hooks, files."""
