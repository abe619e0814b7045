"""The records of a run and what they mean by themselves: no torch, no files, no processes, no terminal."""
