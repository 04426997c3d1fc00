"""Other readers in Python, which are compared with a landing.

Each runs in a process of its own, with the packages of its own environment. Their only import from this
project is `benchmarks.harness.worker_protocol`.
"""
