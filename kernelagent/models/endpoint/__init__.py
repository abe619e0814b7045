"""What `litellm_model` is made of: faults, waiting, capabilities, the stream, prices, keys."""
