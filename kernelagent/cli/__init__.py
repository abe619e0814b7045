"""The command `kernelagent`: flags in, exit status out. What several front ends share lives in `loop`."""
