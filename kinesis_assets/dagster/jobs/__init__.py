"""Jobs of a stream in addition to its runs: maintenance, replay, seek and catch-up."""
