"""The data files: how they are written, described and encoded."""
