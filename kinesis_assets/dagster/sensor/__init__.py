"""The sensor: which shards are read when, which runs are alive, and what it remembers."""
