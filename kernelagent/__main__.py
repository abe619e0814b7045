"""`python -m kernelagent` is the command `kernelagent`."""

from __future__ import annotations

from kernelagent.cli.main import main

if __name__ == "__main__":
    main()
