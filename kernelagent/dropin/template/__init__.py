"""The last section of every emitted module, as source: these files are read as text, not imported."""
