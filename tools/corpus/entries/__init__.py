"""The study's threats by number: cheats that must be refused."""
