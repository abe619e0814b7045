"""JSON Schemas of what the program prints and logs; written by `python -m kernelagent.schemas_of`."""
