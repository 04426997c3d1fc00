"""The positions of a stream, and the files that store them."""
