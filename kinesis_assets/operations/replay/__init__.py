"""Read a committed range again and add the rows that are missing."""
