"""Spark: sessions, a Spark Connect server, and the "kinesis" data source."""
