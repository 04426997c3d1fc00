"""The Dagster resource for the connection to Kinesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.settings.stream_settings import ConnectionSettings
from kinesis_assets.kinesis.settings import ClientSettings, ReadTiming

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.role import AssumedRole


class KinesisResource(ConnectionSettings, dg.ConfigurableResource):  # type: ignore[type-arg]
    """The connection to Kinesis. The fields are described in `ConnectionSettings`.

    The fields that `dagster_aws.utils.ResourceWithBoto3Configuration` has too are the same. It is not the
    base class, because its import takes longer than a stream's definitions take to load; because Dagster
    would show the values of its fields for access keys; and because calls that bypass the SDK do not honor
    its fields `use_ssl`, `verify` and `max_attempts`.
    """

    def stream(
        self, name: str, timing: ReadTiming = ReadTiming(), role: AssumedRole | None = None
    ) -> StreamClient:
        """Return the client of one stream.

        Args:
            name: The stream's name or ARN.
            role: The role of a run; by default that of the settings without a run.

        Raises:
            RoleNotAssumed: The role cannot be assumed.
        """
        from kinesis_assets.kinesis.client import StreamClient  # noqa: PLC0415  # definitions load without the AWS SDK

        settings = ClientSettings(
            self.region_name,
            self.endpoint_url,
            self.profile_name,
            sdk_parser=self.sdk_parser,
            timing=timing,
            role=role or self.role_for(name),
        )
        return StreamClient(name, settings)
