"""The demonstration: the whole way of a record on the embedded stream, and a development UI."""
