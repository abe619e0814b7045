"""Processes and what they may do: the fork server, forks, limits, the sandbox."""
