"""The judge's own test: known cheats that must be refused, honest kernels that must be accepted."""
