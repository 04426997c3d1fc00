"""Spark sessions that AWS runs: on EMR Serverless, on EMR clusters and in AWS Glue.

Each is a Spark Connect server with a token that expires. A run starts a session, replaces its token in time,
and stops it at the end.
"""
