"""The Textual session: a view over a run's events. Not built yet; the command line shows the same run."""
