"""Processes that sections start in order to measure them."""
