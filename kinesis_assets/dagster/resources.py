"""How Dagster reaches Kinesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.kinesis.settings import ClientSettings

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import StreamClient


class KinesisResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The AWS SDK's own settings; what is None comes from its chain (environment, profile, instance role).

    Attributes:
        region_name: As for boto3.
        endpoint_url: As for boto3.
        profile_name: As for boto3. Spark's executors must have the profile too.
        sdk_parser: See `kinesis.settings.ClientSettings`.

    Raises:
        InvalidInput: The endpoint's URL has a user or a password in it.
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None
    sdk_parser: bool = False

    def __init__(self, **fields: Any) -> None:
        # Here, since pydantic's errors repeat what they refuse, and Dagster shows a resource's fields.
        if isinstance(url := fields.get("endpoint_url"), str) and not isinstance(url, dg.EnvVar):
            ClientSettings(endpoint_url=url)
        super().__init__(**fields)

    def stream(self, name: str) -> StreamClient:
        """The calls to one stream, by its name or its ARN."""
        from kinesis_assets.kinesis.client import StreamClient  # noqa: PLC0415  # definitions need no AWS SDK

        settings = ClientSettings(self.region_name, self.endpoint_url, self.profile_name, self.sdk_parser)
        return StreamClient(name, settings)
