"""The command line: `kinesis-assets`."""

from __future__ import annotations

import sys

import click

from kinesis_assets.cli.adopt import adopt
from kinesis_assets.cli.doctor import doctor
from kinesis_assets.cli.local import demo, dev, local
from kinesis_assets.cli.maintain import maintain
from kinesis_assets.cli.positions import positions
from kinesis_assets.cli.replay import replay
from kinesis_assets.cli.run import run
from kinesis_assets.cli.seek import seek
from kinesis_assets.cli.spark import spark
from kinesis_assets.cli.stream import FAILED
from kinesis_assets.errors import InvalidInput, KinesisAssetsError

_BAD_INPUT = 2


def main() -> None:
    """Run the command line. Errors are one line; exit 2 for bad input, 1 for a failed run."""
    try:
        commands(standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(_BAD_INPUT)
    except KinesisAssetsError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(_BAD_INPUT if isinstance(error, InvalidInput) else FAILED)


@click.group()
@click.version_option(package_name="kinesis-assets")
def commands() -> None:
    """Kinesis streams as Dagster assets."""


for _command in (demo, dev, local, spark, run, positions, seek, maintain, replay, adopt, doctor):
    commands.add_command(_command)
