"""Whether one result is right: structure and exact values, the gate, and the errors that a gate of a whole tensor does not see."""
