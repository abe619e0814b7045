"""What a user chooses for a run: every option, declared once on the field that holds its value."""
