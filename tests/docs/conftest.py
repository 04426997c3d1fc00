"""The stream that the pages read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings


@pytest.fixture
def clicks(kinesis: Any, monkeypatch: pytest.MonkeyPatch, settings: ClientSettings) -> Any:
    """The stream `clicks` with ten records; the SDK's environment leads to it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", str(settings.endpoint_url))
    kinesis.create_stream(StreamName="clicks", ShardCount=1)
    entries = [{"Data": b"click", "PartitionKey": str(number)} for number in range(10)]
    kinesis.put_records(StreamName="clicks", Records=entries)
    yield
    kinesis.delete_stream(StreamName="clicks")
