"""The executor's process: a request is checked, a kernel read from its text, launched, watched and logged."""
