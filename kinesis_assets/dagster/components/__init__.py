"""The components: the YAML of streams, of typed tables and of the streams of an account."""
