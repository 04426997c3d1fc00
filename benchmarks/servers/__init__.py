"""Servers on the loopback that the benchmarks read from: streams, and S3 buckets."""
