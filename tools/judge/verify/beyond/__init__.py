"""Calls after the verdict's own, whose results are disclosed and refuse nobody."""
