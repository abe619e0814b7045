"""Files that exist already, judged: emitted modules once more, and other people's kernels."""
