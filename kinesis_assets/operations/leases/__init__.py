"""Hand-over of a stream: positions from other consumers to a new table, and back to a lease table."""
