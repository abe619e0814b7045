"""What is looked for in a text, a file for each kind."""
