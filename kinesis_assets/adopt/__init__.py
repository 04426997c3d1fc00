"""Compute positions from the rows of a table."""
