"""A captured program as records, and what is known of its numbers."""
