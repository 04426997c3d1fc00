"""Commits of rows and positions: their entries, their repetition, and whose they are."""
