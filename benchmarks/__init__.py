"""What it costs: `make bench` measures, and writes REPORT.md."""
