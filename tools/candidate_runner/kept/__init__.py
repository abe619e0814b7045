"""What a candidate keeps between calls, walked object by object."""
