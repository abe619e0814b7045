"""Runs, profiles and scans as text for a person at a terminal."""
