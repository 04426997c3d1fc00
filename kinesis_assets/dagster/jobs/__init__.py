"""Jobs of a stream in addition to its runs: maintenance, replay and seek."""
