"""`kinesis-assets maintain` on a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.terminal import printed_on_a_terminal


@pytest.mark.usefixtures("empty_table")
def test_on_a_terminal_a_bar_is_shown_until_the_steps_are_printed(stream_options):
    printed = printed_on_a_terminal(
        str(Path(sys.prefix, "bin", "kinesis-assets")), "maintain", *stream_options
    )
    assert "maintaining" in printed
    assert printed.rindex("maintaining") < printed.index("checkpoint")
