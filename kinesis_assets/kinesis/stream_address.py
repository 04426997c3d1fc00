"""The address of a stream: its name in the caller's account, or its ARN in any account."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.shards import NAME

_ARN = re.compile(
    r"arn:aws[a-z0-9-]{0,20}:kinesis:(?P<region>[a-z0-9-]{1,40}):(?P<account>[0-9]{12}):stream/(?P<name>[^/]+)",
    re.ASCII,
)
"""The pattern of the API, restricted where the API leaves it open (AWS API reference, StreamARN)."""

_CONSUMER = re.compile(r"(?P<stream>arn:[^/]+:stream/[^/]+)/consumer/.*")


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """A stream as it was configured. All calls use the same form.

    Attributes:
        name: The stream's name.
        arn: The stream's ARN; None if only the name was given.
    """

    name: str
    arn: str | None = None

    @classmethod
    def parse(cls, text: str) -> StreamAddress:
        """Parse a name or an ARN.

        Raises:
            InvalidInput: The text is neither.
        """
        if NAME.fullmatch(text):
            return cls(text)
        if not text.startswith("arn:"):
            raise InvalidInput(
                f"invalid stream name {text[:80]!r}: give 1 to 128 letters, digits, '_', '.' or '-', or the "
                "ARN of a stream"
            )
        if consumer := _CONSUMER.fullmatch(text):
            raise InvalidInput(
                f"{text[:300]!r} is the ARN of a consumer; give the ARN of its stream, "
                f"{consumer['stream'][:200]!r}"
            )
        found = _ARN.fullmatch(text)
        if found is None or not NAME.fullmatch(found["name"]):
            raise InvalidInput(
                f"invalid stream ARN {text[:300]!r}; the form is "
                "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
            )
        return cls(found["name"], text)

    def __str__(self) -> str:
        return self.arn or self.name

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments that name the stream in a call."""
        return {"StreamName": self.name} if self.arn is None else {"StreamARN": self.arn}

    def may_have(self, arn: str, region_name: str | None) -> bool:
        """Whether an ARN may be that of this stream in a region: an address by name does not name an account.

        Args:
            arn: The ARN.
            region_name: The region that is called.
        """
        if self.arn is not None:
            return arn == self.arn
        found = _ARN.fullmatch(arn)
        return found is not None and (found["name"], found["region"]) == (self.name, region_name)

    def region_name(self, configured: str | None) -> str | None:
        """Return the region to call: the region of the ARN or, without an ARN, the configured one.

        Args:
            configured: The region of the stream's own settings; None if it is not set.

        Raises:
            InvalidInput: The two regions differ.
        """
        if self.arn is None:
            return configured
        region = self.arn.split(":")[3]
        if configured not in {None, region}:
            raise InvalidInput(
                f"stream {self.arn} is in region {region}, but region_name is {configured}; "
                "remove region_name"
            )
        return region
