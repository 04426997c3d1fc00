"""Compare a range of a stream with a table that another consumer writes."""
