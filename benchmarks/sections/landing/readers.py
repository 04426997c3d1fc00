"""Every reader that is measured: ours, its bare parts, and the peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness.measure import Command
from benchmarks.harness.peer_environments import PeerUnavailable, dlt_source, python_of, version_of

if TYPE_CHECKING:
    from collections.abc import Container

LANDING = "kinesis_assets: HTTP to committed Delta"
BARE_READ = "bare part: typed read, discarded"
BARE_WRITE = "bare part: Parquet written from batches"
DISCARD = "boto3 loop, discarded"
PYARROW = "boto3 to Parquet with pyarrow"
SPARK = "boto3 rows through Spark to Parquet"
DLT = "dlt Kinesis source to Parquet"
QUIX = "quixstreams KinesisConsumer, discarded"
ASYNC = "async-kinesis Consumer, discarded"

OURS = [
    Command.module(LANDING, "benchmarks.workers.landing", "land"),
    Command.module(BARE_READ, "benchmarks.workers.landing", "read"),
    Command.module(BARE_WRITE, "benchmarks.workers.landing", "write"),
]

PEERS = {
    DISCARD: ("boto3", "benchmarks.peers.boto3_discard"),
    PYARROW: ("boto3", "benchmarks.peers.boto3_pyarrow"),
    SPARK: ("boto3", "benchmarks.peers.boto3_spark"),
    QUIX: ("quixstreams", "benchmarks.peers.quix"),
    ASYNC: ("async-kinesis", "benchmarks.peers.async_kinesis"),
    DLT: ("dlt", "benchmarks.peers.dlt_source"),
}
"""By name, each one's environment and module."""


def peers() -> tuple[list[Command], dict[str, str]]:
    """The peers that can be had here, and by name why the others cannot."""
    commands, missing = [], {}
    for name, (environment, module) in PEERS.items():
        try:
            python = python_of(environment)
            if name == DLT:
                dlt_source()
        except PeerUnavailable as reason:
            missing[name] = str(reason)
        else:
            commands.append(Command.module(name, module, python=python))
    return commands, missing


def versions(missing: Container[str]) -> str:
    """The peers' packages, by environment, and the commit of dlt's source if that is not missing."""
    boto3, pyarrow, pyspark = (version_of("boto3", package) for package in ("boto3", "pyarrow", "pyspark"))
    dlt = version_of("dlt") + ("" if DLT in missing else f" with its source of commit {dlt_source()}")
    others = f"{version_of('quixstreams')}, {version_of('async-kinesis')}"
    return f"{boto3} with {pyarrow} and {pyspark}, {others}, {dlt}"
