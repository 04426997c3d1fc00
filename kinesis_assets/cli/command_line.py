"""The commands, and how their errors are printed."""

from __future__ import annotations

import click

from kinesis_assets.cli.catalog import catalog
from kinesis_assets.cli.compare import compare
from kinesis_assets.cli.consumer import consumer
from kinesis_assets.cli.doctor import doctor
from kinesis_assets.cli.infer import infer
from kinesis_assets.cli.inspect import plan, positions, show
from kinesis_assets.cli.interrupts import INTERRUPTED
from kinesis_assets.cli.leases import leases
from kinesis_assets.cli.local import demo, dev, local
from kinesis_assets.cli.maintain import maintain
from kinesis_assets.cli.operations import adopt, catch_up, rebuild, redrive, replay, seek
from kinesis_assets.cli.options import FAILED, storage_error
from kinesis_assets.cli.output import OutputFailed, guard_output
from kinesis_assets.cli.pause import pause, resume
from kinesis_assets.cli.run import run
from kinesis_assets.cli.spark import spark
from kinesis_assets.errors import InvalidInput, KinesisAssetsError, RunCanceled

_BAD_INPUT = 2


@click.group()
@click.version_option(package_name="kinesis-assets")
def commands() -> None:
    """Ingest Kinesis streams as Dagster assets."""


for _command in (
    demo,
    dev,
    local,
    spark,
    show,
    plan,
    pause,
    resume,
    consumer,
    run,
    positions,
    seek,
    catch_up,
    maintain,
    replay,
    rebuild,
    redrive,
    adopt,
    leases,
    catalog,
    compare,
    doctor,
    infer,
):
    commands.add_command(_command)


def run_command_line() -> int:
    """Run the command that the arguments name, print its error, if any, and return the exit code."""
    guard_output()
    try:
        commands(standalone_mode=False)
    except (SystemExit, click.exceptions.Exit) as done:
        code = done.code if isinstance(done, SystemExit) else done.exit_code
        return code if isinstance(code, int) else 0
    except click.exceptions.Abort:
        return INTERRUPTED
    except RunCanceled as error:
        # A run that was interrupted before its first commit exits like any other command.
        code = _print(error)
        return code if error.events else INTERRUPTED
    except Exception as error:  # noqa: BLE001  # raised again if it is unexpected
        return _print(error)
    return 0


def _print(error: Exception) -> int:
    """Print an error in one line and return the exit code; raise an unexpected error again."""
    if isinstance(error, click.ClickException):
        error.show()
        return _BAD_INPUT
    if not isinstance(error, KinesisAssetsError):
        if (message := storage_error(error)) is None:
            raise error
        click.echo(f"Error: the storage of the Dagster instance in DAGSTER_HOME failed: {message}", err=True)
        return FAILED
    # If standard output failed while another error was handled, that error is printed first.
    before = error.__context__
    if isinstance(error, OutputFailed) and isinstance(before, KinesisAssetsError):
        click.echo(f"Error: {before}", err=True)
    click.echo(f"Error: {error}", err=True)
    return _BAD_INPUT if isinstance(error, InvalidInput) else FAILED
