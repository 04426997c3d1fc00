"""Fixtures for tests of the doctor."""

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
    """A stream that the test creates, and a table that does not exist yet."""
    return Ward(kinesis, StreamClient(stream, replace(settings, timing=READING)), table)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An ephemeral Dagster instance for each test."""
    del tmp_path
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture(autouse=True)
def sdk_clients(shared_sdk_clients: None) -> None:
    """Share SDK clients between tests, because no test here is about them."""
