"""A checkpoint of the user's own behind a vLLM server that we start."""
