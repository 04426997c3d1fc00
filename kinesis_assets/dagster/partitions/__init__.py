"""The partitions of a stream, and the ranges of them that runs have."""
