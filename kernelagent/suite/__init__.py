"""Suites: one ordinary, resumable run for each of many problems, and the table over all of them.

`problems` finds them, `log` is the suite's append-only log, `run_suite` runs the unfinished problems,
`results` folds each run's log, `summary` adds them up, `pairs` compares two suites, `text` writes.
"""
