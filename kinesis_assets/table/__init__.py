"""The raw table: records and positions in one commit."""
