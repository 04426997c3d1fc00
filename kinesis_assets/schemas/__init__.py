"""Schemas of records as Spark types in DDL: from Avro, JSON Schema and samples. Nothing here needs Spark."""
