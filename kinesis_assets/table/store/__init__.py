"""The store of a table's files: a local disk or S3, with which credentials, and what it refuses."""
