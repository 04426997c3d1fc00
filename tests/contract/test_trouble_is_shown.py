"""Line 15 of the contract: trouble turns a check red, with the reason, before records are lost.

`STREAM` is the table: each way in which a stream can be unwell, the checks that are red because of it, and
after how long. docs/alerts.md has the same rows.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.table.run_files.pause import PAUSE_FILE
from support.daemon import Daemon
from support.fixtures.dagster import Source
from support.shard_ids import A, B

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinesis_assets.testing import Clock, Faults
    from support.fixtures.stream import Clocked

PAGE = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()

HOUR = 3600.0
AFTER = {"at once": 0.05, "15 min": 0.27, "1 h": 1.1, "6 h": 6.1, "18 h": 18.1}
"""The first tick, in hours, after each of the times in the table."""

TICKS = sorted([*AFTER.values(), 0.2, 0.9, 5.9, 17.9])
"""The hours of the ticks: there is one before each of these times too."""

LAST = 24
"""The hours after which the first record expires."""


@dataclass
class Trouble:
    """A stream with two shards that were read to their tip, and then got five records.

    Attributes:
        clock: The clock of the service and of the ticks.
    """

    source: Source
    daemon: Daemon
    faults: Faults
    clock: Clock
    alert: Callable[[dg.SensorEvaluationContext], object]
    notified: list[str]
    _cursor: str | None = None

    @property
    def folder(self) -> Path:
        """The folder of the table."""
        return Path(self.daemon.opened.table.uri)

    def tick(self) -> None:
        """Evaluate the sensor, which may fail, and then the sensor of the alerts."""
        with suppress(KinesisAssetsError):
            self.daemon.tick()
        with dg.build_sensor_context(self.daemon.instance, cursor=self._cursor) as context:
            self.alert(context)
            self._cursor = context.cursor

    def failed(self) -> dict[str, str]:
        """Return the description of each check that is red."""
        names = self.daemon.project.names
        checks = [dg.AssetCheckKey(names.raw_key, name) for name, _ in self.daemon.opened.checks.defined]
        records = [self.daemon.instance.get_latest_asset_check_evaluation_record(check) for check in checks]
        found = [record.evaluation for record in records if record and record.evaluation]
        return {each.check_name: str(each.description) for each in found if not each.passed}


@dataclass(frozen=True)
class Row:
    """A way in which a stream can be unwell.

    Attributes:
        condition: What is wrong, as in the page.
        begin: Causes it.
        red: After how long each check is red.
        reason: What the description of the last of them says.
    """

    condition: str
    begin: Callable[[Trouble], object]
    red: Mapping[str, str]
    reason: str
    also: str = field(default="")


BLIND = {"lag": "15 min", "time_to_loss": "1 h", "every_shard_read": "6 h"}
"""What is red while the sensor's ticks fail."""


def deny(trouble: Trouble, *operations: str, code: str = "AccessDeniedException") -> None:
    for operation in operations:
        trouble.faults.fail(operation, status=400, code=code)


def disconnect(trouble: Trouble) -> None:
    for operation in ("DescribeStreamSummary", "ListShards"):
        trouble.faults.reset(operation)


def recreate(trouble: Trouble) -> None:
    trouble.source.delete()
    trouble.clock.advance(60)
    trouble.source.create(2)


def damage_pause(trouble: Trouble) -> None:
    (trouble.folder / PAUSE_FILE).write_bytes(b"")


STREAM = [
    Row("ListShards is denied", lambda it: deny(it, "ListShards"), BLIND, "AccessDenied"),
    Row(
        "DescribeStreamSummary is denied", lambda it: deny(it, "DescribeStreamSummary"), BLIND, "AccessDenied"
    ),
    Row(
        "the credentials have expired",
        lambda it: deny(it, "DescribeStreamSummary", "ListShards", code="ExpiredTokenException"),
        BLIND,
        "ExpiredToken",
    ),
    Row("the endpoint cannot be reached", disconnect, BLIND, "DescribeStreamSummary failed"),
    Row("the stream was deleted", lambda it: it.source.delete(), BLIND, "not found"),
    Row("the stream was deleted and created again", recreate, BLIND, "new table"),
    Row("the pause file is damaged", damage_pause, BLIND, "kinesis-assets resume"),
]


@pytest.fixture
def stream() -> str:
    """The stream of the page."""
    return "clicks"


@pytest.fixture
def trouble(
    make_project, stream: str, instance_in_memory: dg.DagsterInstance, clocked: Clocked, faults, sdk_waits
) -> Trouble:
    del sdk_waits
    page: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(block, page)  # noqa: S102  # the page's own lines
    notified: list[str] = []
    page["notify"] = notified.append
    source = Source(clocked.kinesis, stream)
    source.create(2)
    daemon = Daemon(make_project(endpoint_url=clocked.settings.endpoint_url), instance_in_memory)
    daemon.clock = clocked.clock
    daemon.tick()
    daemon.commit([A, B], by=None)
    trouble = Trouble(source, daemon, faults, clocked.clock, page["failed_checks"], notified)
    clocked.clock.advance(1)
    trouble.tick()
    source.put(A, 5)
    return trouble


def test_a_stream_that_is_well_has_no_red_check(trouble: Trouble) -> None:
    assert (trouble.failed(), trouble.notified) == ({}, [])


@pytest.mark.parametrize("row", STREAM, ids=lambda row: row.condition)
def test_a_stream_that_is_unwell_has_red_checks_with_the_reason_in_time(trouble: Trouble, row: Row) -> None:
    start = trouble.clock.seconds
    row.begin(trouble)
    red: dict[str, str] = {}
    for hours in TICKS:
        trouble.clock.advance(start + hours * HOUR - trouble.clock.seconds)
        trouble.tick()
        failed = trouble.failed()
        label = next((name for name, first in AFTER.items() if first == hours), f"before {hours} h")
        red |= {name: label for name in failed if name not in red}
        assert failed.keys() == red.keys()
    assert red == row.red
    assert all(row.reason in description for description in failed.values())
    assert any(row.reason in text for text in trouble.notified)
