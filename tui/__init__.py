"""The Textual session: a fold over a run's event log, live or past, and the keys that steer it.

`follow` reads the log, `view` folds it, `run_screen` shows it; nothing here writes a log.
"""
