"""From how many files on maintenance compacts a day, and prunes the chain of positions early."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MaintenanceLimits:
    """Numbers of files from which on maintenance does more.

    Attributes:
        small_files: A day with fewer small files is not compacted, so that a few late files do not rewrite it
            every night.
        small_files_today: Likewise for the current day, which is compacted once more after it has ended.
        chain_files: If there are more positions files, those older than `CHAIN_NEEDED` are deleted early. The
            default is reached by a run every 26 seconds for all of `CHAIN_KEPT`.
        chain_bytes: Likewise for their bytes.
    """

    small_files: int = 4
    small_files_today: int = 500
    chain_files: int = 100_000
    chain_bytes: int = 4 << 30


DEFAULT_LIMITS = MaintenanceLimits()
