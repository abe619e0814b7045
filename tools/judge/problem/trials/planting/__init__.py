"""Values between the probes, planted where a kernel may decide by them: numbers of the sources, patterns of rows."""
