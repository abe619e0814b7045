"""Memory across runs: what worked and what failed, kept on disk and told again where it fits.

`patterns` says what kind of problem a module is, `lesson` what one lesson holds, `distil` makes lessons
of a run's log, `library` keeps them in a folder of TOML files, `recall` picks those that fit a turn.
"""

from __future__ import annotations
