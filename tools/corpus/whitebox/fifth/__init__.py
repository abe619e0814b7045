"""What a fifth round of attackers found, sorted by what it exploits."""
