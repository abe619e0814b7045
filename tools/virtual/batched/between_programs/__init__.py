"""What programs that ran together do to each other: places of several, and the order they would need."""
