"""What a writer may ask of the judge beside its turns; nothing said here enters a verdict."""
