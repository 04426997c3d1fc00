"""What a table's Delta log says: its commits, transactions, restores, and the files that it refers to."""
