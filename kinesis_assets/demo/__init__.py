"""The demonstration and the development environment, both on the embedded stream."""
