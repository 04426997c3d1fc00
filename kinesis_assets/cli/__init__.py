"""The command line: `kinesis-assets`. What it consists of is imported when it is called, see `interrupts`."""

from __future__ import annotations

from kinesis_assets.cli.interrupts import INTERRUPTED, leave, quiet_interrupts


def main() -> None:
    """Run the command line. Errors are one line; exit 2 for bad input, 1 for a failed run, 130 for Ctrl-C."""
    quiet_interrupts()
    try:
        from kinesis_assets.cli.command_line import run_command_line  # noqa: PLC0415  # a tenth of a second

        code, interrupted = run_command_line()
    except KeyboardInterrupt:
        code, interrupted = INTERRUPTED, True
    leave(code, interrupted=interrupted)
