"""Programs that run until Ctrl-C."""

from __future__ import annotations

import threading
from contextlib import suppress

import click


def wait_for_interruption(usage: str) -> None:
    """Print how to use what is running, and wait until Ctrl-C is pressed."""
    with suppress(KeyboardInterrupt):
        click.echo(f"{usage}\nPress Ctrl-C to end it.")
        threading.Event().wait()
