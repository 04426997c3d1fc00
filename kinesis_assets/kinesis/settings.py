"""How Kinesis is reached."""

from __future__ import annotations

from dataclasses import dataclass

from kinesis_assets.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach Kinesis; None leaves a setting to the AWS SDK's own chain. Carries no secret.

    Attributes:
        region_name: As for boto3.
        endpoint_url: As for boto3.
        profile_name: As for boto3.
        sdk_parser: Have the SDK alone ask for and parse records: the same records for several times the
            CPU, and fewer pages at once.

    Raises:
        InvalidInput: The endpoint's URL has a user or a password in it.
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None
    sdk_parser: bool = False

    def __post_init__(self) -> None:
        if "@" in (self.endpoint_url or ""):
            raise InvalidInput(
                "an endpoint URL has no user or password in it: requests are signed with what the SDK's "
                "chain of credentials gives"
            )
