"""The reference of the command line is that of the commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_that_of_the_commands(tmp_path: Path) -> None:
    page = tmp_path / "cli.md"
    subprocess.run([sys.executable, DOCS / "cli_reference.py", page], check=True, timeout=300)
    assert page.read_text() == (DOCS / "cli.md").read_text(), "run `make docs`, which writes docs/cli.md"
