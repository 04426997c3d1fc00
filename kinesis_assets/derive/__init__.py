"""Derived tables: tables that consume another table, exactly once."""
