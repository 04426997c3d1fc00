"""What is only true of tables in the format Iceberg."""
