"""Maxima and averages over windows that overlap."""
