"""`spark`: a Spark Connect server for all runs, and the Python packages of executors elsewhere."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

import click


@click.group(invoke_without_command=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=15002,
    show_default=True,
    help="Loopback port; 0 for a free port.",
)
@click.option(
    "--archive",
    is_flag=True,
    help="Do not start a server; create the class data archive that makes Spark start faster.",
)
@click.pass_context
def spark(context: click.Context, port: int, *, archive: bool) -> None:
    """Serve Spark Connect, so that runs do not have to start Spark.

    It is served on loopback until it is interrupted. Runs with the printed SPARK_REMOTE use the server. Their
    tasks run with the environment of this command, so it needs the AWS settings. The token in SPARK_REMOTE
    allows its holder to run code as you.
    """
    if context.invoked_subcommand is not None:
        return
    from kinesis_assets.spark.server import SparkServer, make_archive

    if archive:
        click.echo(make_archive())
        return
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too, because shells ignore it for background jobs
        signal.signal(number, signal.default_int_handler)
    log = Path(tempfile.mkdtemp(prefix="kinesis-assets-spark-"), "log")
    try:
        with SparkServer(log, port=port, preload=["kinesis_assets.operations.replay.task"]) as server:
            click.echo(f"export SPARK_REMOTE='{server.url}'")
            click.echo(f"Spark Connect is ready; its log is {log}. Interrupt to stop it.", err=True)
            server.wait()
    except KeyboardInterrupt:
        pass


@spark.command()
@click.argument("archive", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--python",
    default=f"{sys.version_info.major}.{sys.version_info.minor}",
    show_default="that of this command",
    help="Version of Python on the executors.",
)
def environment(archive: Path, python: str) -> None:
    """Pack the Python packages of executors into ARCHIVE.

    This is a .tar.gz, for the setting python_environment. It contains what tasks import, in the versions that
    are installed here, but not this package, which each run sends itself. Executors need Python in the same
    version as the run. Prints what was packed.
    """
    from kinesis_assets.spark.packages import pack_environment

    for requirement in pack_environment(archive, python):
        click.echo(requirement)
