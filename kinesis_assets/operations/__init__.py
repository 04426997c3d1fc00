"""What an operator does beside runs."""
