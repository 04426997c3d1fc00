"""What is only true of tables in the format Delta Lake, raw and derived."""
