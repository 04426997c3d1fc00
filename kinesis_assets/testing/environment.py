"""Where code under test finds the embedded stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinesis_assets.emulator import LocalKinesis


def aws_environment(local: LocalKinesis) -> dict[str, str]:
    """Environment variables by which an AWS SDK that is told nothing else uses the embedded stream.

    The credentials mean nothing: the embedded stream does not look at signatures.
    """
    return {
        "AWS_ENDPOINT_URL_KINESIS": local.endpoint_url,
        "AWS_REGION": local.region,
        "AWS_DEFAULT_REGION": local.region,
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
    }
