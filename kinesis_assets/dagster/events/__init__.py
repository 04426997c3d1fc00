"""The events of a stream in Dagster: what they say, and which are missing."""
