"""What a run keeps on disk and how it is read again: log, git history, inbox, lessons. No torch, no terminal."""
