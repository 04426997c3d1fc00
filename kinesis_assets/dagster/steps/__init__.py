"""The steps of runs over a stream."""
