"""The judge's clock: how a candidate and its baselines are timed and traced."""
