"""Environment variables that direct the AWS SDK to the embedded stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinesis_assets.emulator import LocalKinesis


def aws_environment(local: LocalKinesis) -> dict[str, str]:
    """Return environment variables with which an AWS SDK uses the embedded stream by default.

    The credentials are placeholders. The embedded stream does not check signatures.
    """
    return {
        "AWS_ENDPOINT_URL_KINESIS": local.endpoint_url,
        "AWS_REGION": local.region,
        "AWS_DEFAULT_REGION": local.region,
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
    }
