"""Attention: found in a program, priced, and written as one kernel."""
