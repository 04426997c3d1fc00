"""Small files in a table's folder by which runs, tasks and operators know of each other."""
