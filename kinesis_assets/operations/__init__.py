"""What people do to a stream's table beside its runs: fill holes, set positions, examine."""
