"""Replacements for tries to commit, which fail."""

from __future__ import annotations


def lost_response(real, snapshot, files, positions):
    """A try that commits but whose response is lost."""
    real(snapshot, files, positions)
    raise OSError("connection reset")


def never_landed(*_):
    """A try that fails without a commit."""
    raise OSError("connection refused")
