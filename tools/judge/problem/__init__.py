"""The user's problem opened for judging: module, reference outputs, inputs, trials."""
