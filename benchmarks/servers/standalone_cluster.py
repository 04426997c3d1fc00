"""A standalone cluster whose Python has no packages, and the packages that tasks import."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.servers.spark_cluster import (
    StandaloneCluster,
    bare_python,
    packed_environment,
    unpacked_environment,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Cluster:
    """A running cluster of a master and two workers, whose Python has no packages.

    Attributes:
        config: The settings of a session on it.
        pids: The ids of the processes of which the others are descendants.
        environment: The archive with the packages that tasks import.
        python: A Python interpreter that has these packages.
    """

    config: Mapping[str, str]
    pids: Sequence[int]
    environment: Path
    python: Path


@contextmanager
def standalone_cluster() -> Iterator[Cluster]:
    """Run a cluster until the end of the block."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = unpacked_environment(folder / "packages")
        with StandaloneCluster(folder, bare_python(folder / "bare")) as cluster:
            yield Cluster(cluster.config, cluster.pids, packed_environment(), python)
