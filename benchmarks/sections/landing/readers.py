"""All readers that are compared: ours, its bare parts, and the peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness.peer_environments import PeerUnavailable, dlt_source, python_of, version_of
from benchmarks.harness.worker import Command

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
"""Environment and module by name."""


def available_peers() -> tuple[list[Command], dict[str, str]]:
    """Return the peers that can be installed, and the reasons why others cannot, by name."""
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
    """Return the packages of the peers, and the commit of dlt's source unless it is missing."""
    boto3, pyarrow, pyspark = (version_of("boto3", package) for package in ("boto3", "pyarrow", "pyspark"))
    dlt = version_of("dlt") + ("" if DLT in missing else f" with its source at commit {dlt_source()}")
    others = f"{version_of('quixstreams')}, {version_of('async-kinesis')}"
    return f"{boto3} with {pyarrow} and {pyspark}, {others}, {dlt}"
