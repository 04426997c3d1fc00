"""What `make docs` generates is generated from the present code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import Field

from benchmarks.harness.waiting import SECONDS
from docs.scale_table import EVENT_SECONDS
from docs.settings_table import settings_table
from kinesis_assets.dagster.settings.settings_base import Settings

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.thorough  # `.ci/run` generates them too, and fails if they differ
@pytest.mark.parametrize(
    ("script", "page"),
    [
        ("cli_reference.py", "cli.md"),
        ("settings_table.py", "reading.md"),
        ("settings_table.py", "catalog.md"),
        ("settings_table.py", "decoders.md"),
        ("settings_table.py", "derived.md"),
        ("settings_table.py", "routes.md"),
        ("settings_table.py", "spark.md"),
        ("metrics_table.py", "metrics.md"),
        ("scale_table.py", "scale.md"),
    ],
)
def test_a_page_is_what_its_script_writes(script: str, page: str, tmp_path: Path) -> None:
    written = tmp_path / page
    shutil.copy(DOCS / page, written)
    subprocess.run([sys.executable, DOCS / script, written], check=True, timeout=SECONDS)
    assert written.read_text() == (DOCS / page).read_text(), "run `make docs`"


class Compared(Settings):
    """Settings with a description that HTML would change."""

    at_most: int = Field(description="At most this, < 10 and > 1.", examples=[3])


def test_a_description_begins_no_tag() -> None:
    assert "| At most this, &lt; 10 and > 1. |" in settings_table(Compared)


def test_every_option_of_the_command_line_reference_has_a_description() -> None:
    options = re.findall(r"^- `(.+)`:(.*)$", (DOCS / "cli.md").read_text(), re.MULTILINE)
    assert options
    assert [name for name, description in options if not description.strip()] == []


def test_the_time_of_an_event_in_sqlite_is_that_of_the_report() -> None:
    report = (DOCS.parent / "benchmarks" / "REPORT.md").read_text()
    found = re.search(
        r"over (\d+) partitions that does .*?\| SQLite \| not set \| ([\d.]+) ", report, re.DOTALL
    )
    assert found is not None
    events = 2 * int(found[1])
    assert float(found[2]) / events == pytest.approx(EVENT_SECONDS, rel=0.25)
