"""`spark`: a Spark that stays warm from run to run."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import click


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=15002,
    show_default=True,
    help="On loopback; 0 for a free one.",
)
@click.option(
    "--archive", is_flag=True, help="Serve nothing; make Spark's starts cheaper here, once for all."
)
def spark(port: int, *, archive: bool) -> None:
    """Serve Spark Connect on loopback until interrupted, so that no run has to start a Spark.

    Runs use it that have the printed SPARK_REMOTE. Their tasks run with the environment of this command: give
    it the AWS settings that they need. The token in SPARK_REMOTE lets whoever has it run code as you.
    """
    from kinesis_assets.spark.server import (  # noqa: PLC0415  # each command loads what it needs
        SparkServer,
        make_archive,
    )

    if archive:
        click.echo(make_archive())
        return
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a script's background jobs ignore it
        signal.signal(number, signal.default_int_handler)
    log = Path(tempfile.mkdtemp(prefix="kinesis-assets-spark-"), "log")
    try:
        with SparkServer(log, port=port, preload=["kinesis_assets.replay.task"]) as server:
            click.echo(f"export SPARK_REMOTE='{server.url}'")
            click.echo(f"Spark Connect answers; its log is {log}. Interrupt to end it.", err=True)
            server.wait()
    except KeyboardInterrupt:
        pass
