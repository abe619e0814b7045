"""From counted traffic and machine code to an estimate of time. Nothing here was measured on a GPU."""
