"""The command line `kinesis-assets`. Everything but `interrupts` is imported only when it is called."""

from __future__ import annotations

from kinesis_assets.cli.interrupts import INTERRUPTED, leave, quiet_interrupts


def main() -> None:
    """Run the command line.

    Errors are printed as one line. The exit code is 2 for invalid input, 1 for a failed run and 130 for
    Ctrl-C.
    """
    quiet_interrupts()
    try:
        from kinesis_assets.cli.command_line import run_command_line  # its import takes 0.1 s

        code = run_command_line()
    except KeyboardInterrupt:
        code = INTERRUPTED
    leave(code)
