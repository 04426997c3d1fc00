"""Kinesis through Spark: landing a run's ranges, and the "kinesis" data source."""
