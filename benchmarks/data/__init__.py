"""Test data: payloads, and tables with many commits or many files."""
