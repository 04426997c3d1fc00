"""The consumers of a stream with enhanced fan-out: their names and ARNs, and their descriptions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

import msgspec

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.stream import NAME

if TYPE_CHECKING:
    from datetime import datetime

_ARN = re.compile(
    r"(?P<stream>arn:aws[a-z0-9-]{0,20}:kinesis:[a-z0-9-]{1,40}:[0-9]{12}:stream/[^/]{1,128})"
    r"/consumer/(?P<name>[^/:]{1,128}):[0-9]{1,20}",
    re.ASCII,
)
"""The pattern of the API, restricted where the API leaves it open (AWS API reference, ConsumerARN)."""

NOT_FOUND = "ResourceNotFoundException"
"""The name of the exception if there is no such consumer."""

REGISTER_IT = "Register it with `kinesis-assets consumer register`"
"""The advice if there is no such consumer."""

_TEXTS = ("ConsumerName", "ConsumerARN", "ConsumerStatus")


@dataclass(frozen=True, slots=True)
class ConsumerAddress:
    """A consumer as it was configured.

    Attributes:
        arn: Its ARN; None if only the name was given. A consumer that is registered again has another one.
        stream_arn: The ARN of the stream in it; None likewise.
    """

    name: str
    arn: str | None = None
    stream_arn: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a name or an ARN."""
        if NAME.fullmatch(text):
            return cls(text)
        found = _ARN.fullmatch(text)
        if found is None or not NAME.fullmatch(found["name"]):
            raise InvalidInput(
                f"consumer: invalid consumer {text[:300]!r}: give its name, 1 to 128 letters, digits, '_', "
                "'.' or '-'; or its ARN, such as "
                "arn:aws:kinesis:us-east-1:123456789012:stream/orders/consumer/lake:1764331200"
            )
        return cls(found["name"], text, found["stream"])

    def arguments(self, stream_arn: str) -> dict[str, str]:
        """Return the arguments that name the consumer of a stream in a call."""
        if self.arn is None:
            return {"StreamARN": stream_arn, "ConsumerName": self.name}
        if self.stream_arn != stream_arn:
            raise InvalidInput(f"consumer: {self.arn} is not a consumer of stream {stream_arn}; correct it")
        return {"ConsumerARN": self.arn}

    def may_have(self, arn: str, stream_arn: str) -> bool:
        """Return whether an ARN in a response can be that of this consumer of a stream."""
        if self.arn is not None:
            return arn == self.arn
        named = re.escape(f"{stream_arn}/consumer/{self.name}")
        return re.fullmatch(rf"{named}(:[0-9]{{1,20}})?", arn) is not None


@dataclass(frozen=True, slots=True)
class Consumer:
    """A registered consumer.

    Attributes:
        status: CREATING, ACTIVE or DELETING.
        created: UTC.
    """

    name: str
    arn: str
    status: str
    created: datetime

    @classmethod
    def of(cls, described: dict[str, Any]) -> Self:
        """Return the consumer of a description in a response of the SDK.

        Raises:
            KeyError, TypeError, ValueError: It lacks a field, or one is of the wrong type.
        """
        name, arn, status = (msgspec.convert(described[field], str) for field in _TEXTS)
        return cls(name, arn, status, described["ConsumerCreationTimestamp"].astimezone(UTC))


def check_consumer(text: str | None) -> None:
    """Check the setting for the consumer."""
    if text is None:
        return
    ConsumerAddress.parse(text)
    if find_spec("h2") is None:
        raise InvalidInput("consumer: enhanced fan-out needs h2: pip install 'kinesis-assets[fan-out]'")
