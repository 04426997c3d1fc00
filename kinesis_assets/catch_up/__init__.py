"""Continue with the newest records, and add those that were skipped."""
