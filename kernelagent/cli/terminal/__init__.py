"""How the command is read and how it prints: help, completion, progress, JSON, Ctrl-C."""
