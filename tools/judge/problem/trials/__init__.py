"""The calls that a candidate is judged on: inputs, probes, patterns, and their order in rounds."""
