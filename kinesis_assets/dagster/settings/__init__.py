"""The settings of streams, tables and sessions, each declared once, and their JSON schemas."""
