"""The standalone cluster on which the tests run, for the sections that measure it."""

from __future__ import annotations

import sys
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.paths import ROOT

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
    sys.path.append(str(ROOT / "tests"))  # from which the tests import `support`
    from support.spark_cluster import (  # noqa: PLC0415
        StandaloneCluster,
        bare_python,
        packed_environment,
    )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = packed_environment(folder)
        with tarfile.open(archive) as content:
            content.extractall(folder / "packages", filter="data")
        with StandaloneCluster(folder, bare_python(folder / "bare")) as cluster:
            yield Cluster(cluster.config, cluster.pids, archive, folder / "packages/bin/python")
