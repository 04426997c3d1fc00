"""What a table's log says: its versions, and which of them replaced rows of the table."""
