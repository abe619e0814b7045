"""What the names and expressions of a text stand for, followed through the whole text before anything is named."""
