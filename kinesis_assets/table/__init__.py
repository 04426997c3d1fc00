"""The raw table: records and positions in one atomic commit."""
