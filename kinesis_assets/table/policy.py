"""How a table is written: when files are split, commits repeated and shards archived, and by which clock."""

from __future__ import annotations

from dataclasses import dataclass

from kinesis_assets.kinesis.clock import MACHINE_CLOCK, Clock
from kinesis_assets.retry import Backoff, full_jitter
from kinesis_assets.table.data_files.data_file_writer import FileLayout
from kinesis_assets.table.positions.positions_chain import ChainPolicy


@dataclass(frozen=True, slots=True)
class CommitRetries:
    """How often, and after which waits, a commit is tried.

    Attributes:
        tries: Maximum number of failed tries. A try that another commit overtook does not count.
        refusals: Consecutive tries that are refused, for lack of permission or the like, after which no other
            is made. A single refusal may be due to credentials that are being replaced.
        seconds: Maximum seconds for all tries.
        backoff: The wait after a failed try.
        overtaken: The wait after another commit was first. It does not grow, so that each run gets its turn.
    """

    tries: int = 40
    refusals: int = 2
    seconds: float = 600.0
    backoff: Backoff = Backoff(0.05, 1.0, full_jitter)
    overtaken: Backoff = Backoff(0.1, 0.1, full_jitter)


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """How a table is written.

    Only tests and benchmarks replace the defaults.

    Attributes:
        chain: When a positions file holds all shards, and when shards are archived.
        commits: How often a commit is tried.
        data_files: The sizes of the data files.
        clock: The clock.
    """

    chain: ChainPolicy = ChainPolicy()
    commits: CommitRetries = CommitRetries()
    data_files: FileLayout = FileLayout()
    clock: Clock = MACHINE_CLOCK
