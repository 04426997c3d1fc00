"""Units of size."""

GB = 1e9
MIB = 1 << 20
