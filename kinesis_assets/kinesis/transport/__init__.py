"""Signed HTTP calls, many at once on one event loop."""
