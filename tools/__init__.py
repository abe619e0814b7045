"""The measuring instruments of a turn: compile, verify, measure, profile, inspect; and the devices they use."""
