"""Ingestion: a run is planned, landed in Spark and committed."""
