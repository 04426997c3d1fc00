"""How Dagster reaches Kinesis."""

from __future__ import annotations

import dagster as dg

from kinesis_assets.kinesis.client import ClientSettings, StreamClient


class KinesisResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The AWS SDK's own settings; what is None comes from its chain (environment, profile, instance role).

    Attributes:
        region_name: As for boto3.
        endpoint_url: As for boto3.
        profile_name: As for boto3. Spark's executors must have the profile too.
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None

    def stream(self, name: str) -> StreamClient:
        """The calls to one stream."""
        return StreamClient(name, ClientSettings(self.region_name, self.endpoint_url, self.profile_name))
