"""Signed HTTP calls, many of them concurrent on one event loop."""
