"""Processes and what they may do: the warm parent, forks, limits, the sandbox."""
