"""The user's module as what candidates are compared with: computed, in float64 too, and how far a right answer may be off."""
