"""What a module must cost at least, and what a candidate is estimated to cost."""
