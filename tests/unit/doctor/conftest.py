"""A stream with its table, and a Dagster instance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from kinesis_assets.kinesis.client import StreamClient
from support.timing import READING
from support.ward import Ward

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kinesis_assets.table.table import PositionedTable


@pytest.fixture
def ward(kinesis, stream: str, settings, table: PositionedTable) -> Ward:
    """The test's own stream, which it creates, and a table that is not there yet."""
    return Ward(kinesis, StreamClient(stream, replace(settings, timing=READING)), table)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """A Dagster instance of the test's own."""
    del tmp_path
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture(autouse=True)
def sdk_clients(shared_sdk_clients: None) -> None:
    """No test here is about the SDK's client."""
