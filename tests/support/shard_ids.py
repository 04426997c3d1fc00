"""The ids of a stream's first shards."""

from __future__ import annotations

A, B, C, D, E, F, G, H, I, J = (f"shardId-{number:012d}" for number in range(10))  # noqa: E741
