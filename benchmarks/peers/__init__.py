"""Other ways to read a stream in Python, each a process of its own; see `benchmarks.sections.landing`."""
