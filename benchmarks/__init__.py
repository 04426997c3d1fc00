"""What ingestion costs: `make bench` measures it and prints a report."""
