"""`demo`, `dev` and `local`: commands that run the embedded stream."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import click

from kinesis_assets.cli.options import FAILED
from kinesis_assets.errors import InvalidInput

_PORT = click.IntRange(0, 65535)


@click.command()
def demo() -> None:
    """Ingest records from the embedded stream, and verify them.

    Each one must be in the table exactly once.
    """
    _require("demo", "h2", "uvicorn", "duckdb", "duckdb_extension_delta")
    from kinesis_assets.demo.run import run_demo

    sys.exit(0 if run_demo() else FAILED)


@click.command()
@click.option("--port", type=_PORT, default=3000, show_default=True, help="Port of the UI on loopback.")
def dev(port: int) -> None:
    """Start the Dagster UI and the embedded stream with orders.

    Run it in the project's folder.
    """
    _require("demo", "h2", "uvicorn", "dagster_webserver")
    from kinesis_assets.demo.dev import run_dev

    project = Path.cwd()
    if not (project / "workspace.yaml").is_file():
        raise InvalidInput(f"{project} has no workspace.yaml; run this in the project's folder")
    sys.exit(run_dev(project, port))


@click.command()
@click.option("--port", type=_PORT, default=4567, show_default=True, help="Loopback port; 0 for a free port.")
def local(port: int) -> None:
    """Serve the embedded stream, a Kinesis endpoint in memory."""
    _require("emulator", "h2", "uvicorn")
    from kinesis_assets.emulator import serve

    try:
        serve(port, click.echo)  # which flushes, so that a script can read the URL from a pipe
    except OSError as error:
        raise InvalidInput(f"port {port}: {error.strerror}; choose another with --port") from error


def _require(extra: str, *modules: str) -> None:
    """Raise InvalidInput unless the modules of an extra are installed."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise InvalidInput(
            f"{', '.join(missing)}: not installed; install what this command needs with "
            f"`pip install 'kinesis-assets[{extra}]'`"
        )
