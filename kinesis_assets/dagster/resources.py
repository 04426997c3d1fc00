"""The Dagster resource for the connection to Kinesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.settings import ConnectionSettings
from kinesis_assets.kinesis.read_timing import ReadTiming
from kinesis_assets.kinesis.settings import ClientSettings

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import StreamClient


class KinesisResource(ConnectionSettings, dg.ConfigurableResource):  # type: ignore[type-arg]
    """The connection to Kinesis. The fields are described in `ConnectionSettings`.

    The fields that `dagster_aws.utils.ResourceWithBoto3Configuration` has too are the same. It is not the
    base class, because its import takes longer than a stream's definitions take to load; because Dagster
    would show the values of its fields for access keys; and because calls that bypass the SDK do not honor
    its fields `use_ssl`, `verify` and `max_attempts`.
    """

    def stream(self, name: str, timing: ReadTiming = ReadTiming()) -> StreamClient:
        """Return the client of one stream.

        Args:
            name: The stream's name or ARN.
            timing: When a run calls the stream.
        """
        from kinesis_assets.kinesis.client import StreamClient  # noqa: PLC0415  # definitions load without the AWS SDK

        return StreamClient(name, ClientSettings(**self.of(ConnectionSettings), timing=timing))
