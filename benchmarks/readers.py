"""Every reader that is measured: ours, its bare parts, and the peers."""

from __future__ import annotations

from benchmarks.environments import PeerUnavailable, dlt_source, python_of, version_of
from benchmarks.measure import Command

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
    Command.module(LANDING, "benchmarks.landing_child", "land"),
    Command.module(BARE_READ, "benchmarks.landing_child", "read"),
    Command.module(BARE_WRITE, "benchmarks.landing_child", "write"),
]

BOTO3 = [
    Command.module(DISCARD, "benchmarks.peers.boto3_discard"),
    Command.module(PYARROW, "benchmarks.peers.boto3_pyarrow"),
    Command.module(SPARK, "benchmarks.peers.boto3_spark"),
]
"""These use nothing that this project does not, so its own environment is theirs."""


def peers() -> tuple[list[Command], dict[str, str]]:
    """The peers that can be had here, and by name why the others cannot."""
    commands, missing = list(BOTO3), {}
    others = {
        QUIX: ("quixstreams", "benchmarks.peers.quix"),
        ASYNC: ("async-kinesis", "benchmarks.peers.async_kinesis"),
        DLT: ("dlt", "benchmarks.peers.dlt_source"),
    }
    for name, (environment, module) in others.items():
        try:
            python = python_of(environment)
            if name == DLT:
                dlt_source()
        except PeerUnavailable as reason:
            missing[name] = str(reason)
        else:
            commands.append(Command.module(name, module, python=python))
    return commands, missing


def versions() -> str:
    """The packages of the peers."""
    pins = [version_of(peer) for peer in ("quixstreams", "async-kinesis", "dlt")]
    return ", ".join(pins)
