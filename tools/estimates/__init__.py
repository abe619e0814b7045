"""What torch's own modules take on a GPU that is not here: estimates, each with its interval."""
