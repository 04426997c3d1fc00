"""Calls without what the AWS SDK does around each one anew: for those that every shard needs.

The SDK's own parts give credentials, sign, open the connections and keep them, and name what went wrong. Left
out are its parser, which makes dicts one field at a time and costs more CPU than all else (benchmarks,
landing); its HTTP (`http_endpoint`); and its rules of endpoints, its validation and its hooks, which find the
same for every call.
"""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
from botocore.exceptions import ClientError

from kinesis_assets.kinesis.records.wire import IncompleteBody
from kinesis_assets.kinesis.transport.awaitables import by_a_thread
from kinesis_assets.kinesis.transport.http_connection import HttpEndpoint
from kinesis_assets.kinesis.transport.sdk_internals import Signing, connections_of, parser_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.kinesis.transport.awaitables import Waits
    from kinesis_assets.kinesis.transport.http_response import HttpAnswer
    from kinesis_assets.kinesis.transport.memory_limiter import Seat

AnswerT_co = TypeVar("AnswerT_co", covariant=True)


class Wire(Protocol[AnswerT_co]):
    """A struct that an answer's JSON is decoded to."""

    def answer(self) -> AnswerT_co:
        """What it means.

        Raises:
            ValueError: It can mean nothing.
        """


LARGEST_BODY = 16 << 20
"""Bytes of an answer's body at most. None is longer: 10 MiB as base64, and what is around it."""

COPIES = 2.5
"""Memory that a page takes at most for each byte of its body, if its records have 100 bytes or more: the body
and the records taken out of it, as text; later these as text and bytes, then as bytes and Arrow columns."""

_encoder = msgspec.json.Encoder()


class DirectCall(Generic[AnswerT_co]):
    """An operation, made with a botocore client's own parts; it is made once, never tried again.

    Args:
        client: Of Kinesis.
        operation: Its name.
        wire: What its answers are as JSON.
        endpoint_url: Where to; the client's endpoint by default.

    Raises:
        SdkInternalMissing: The client's parts cannot be used.
        ValueError: The endpoint's URL, or that of a proxy, cannot be meant.

    Attributes:
        operation: Its name.
    """

    def __init__(
        self, client: Any, operation: str, wire: type[Wire[AnswerT_co]], endpoint_url: str | None = None
    ) -> None:
        self.operation = operation
        self._decoder = msgspec.json.Decoder(wire)
        self._signing = Signing(client)
        model = client.meta.service_model
        self._shape = model.operation_model(operation).output_shape
        endpoint = endpoint_url or client.meta.endpoint_url
        self._url = endpoint if urlsplit(endpoint).path else f"{endpoint}/"
        self._endpoint = HttpEndpoint(connections_of(client, self._url), self._url, LARGEST_BODY)
        self._headers = {
            "Host": _host(self._url),  # otherwise the signer derives it for each call
            "Content-Type": f"application/x-amz-json-{model.metadata['jsonVersion']}",
            "User-Agent": client.meta.config.user_agent,
            "X-Amz-Target": f"{model.metadata['targetPrefix']}.{operation}",
        }

    def __call__(
        self, arguments: Mapping[str, Any], seat: Seat
    ) -> Waits[tuple[AnswerT_co | IncompleteBody, str | None]]:
        """What the service answers, and its `Date`. The answer has a seat from when its body is read, but for
        the first 256 KiB, which come with its head.

        What is not read stays with the sender, and the answer's head tells how long the body is: so the
        memory of a task is bounded by what comes, and not by a guess.

        Raises:
            ClientError: The service refused.
            BotoCoreError: No whole answer came.
        """
        request = self._signing.request("POST", self._url, self._headers, _encoder.encode(arguments))
        yield from self._sign(request)
        answer = yield from self._endpoint.post(
            request.headers.items(), request.body, lambda length: seat.take(int(COPIES * length))
        )
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            refusal = self._refusal(answer)
            del answer  # an error keeps what is in its frames
            raise ClientError(refusal, self.operation)
        date = answer.headers.get("date")
        try:
            wire = self._decoder.decode(answer.body)
            del answer  # for what is made of it
            return wire.answer(), date
        except ValueError as error:  # msgspec's are such, too
            return IncompleteBody(str(error)), date

    def _sign(self, request: Any) -> Waits[None]:
        """Near the credentials' end one call gets new ones over the network; the others sign with the old
        ones.
        """
        sign = self._signing.signer.sign
        if self._signing.needs_credentials():
            yield from by_a_thread(lambda: sign(self.operation, request))
        else:
            sign(self.operation, request)

    def _refusal(self, answer: HttpAnswer) -> dict[str, Any]:
        parsed = {"status_code": answer.status, "headers": answer.headers, "body": bytes(answer.body)}
        refusal: dict[str, Any] = {}
        # What is no answer of the service's, as of a proxy, can be anything.
        with suppress(parser_error(), ValueError, AttributeError, TypeError, KeyError):
            refusal = self._signing.parse_refusal(parsed, self._shape)
        return {
            "Error": {"Code": str(answer.status), "Message": ""},
            "ResponseMetadata": {"HTTPStatusCode": answer.status},
        } | refusal


def _host(url: str) -> str:
    """The header as the SDK signs it: in lower case, without a user, and without the scheme's own port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    own = {"http": 80, "https": 443}.get(parts.scheme)
    return host if parts.port in {None, own} else f"{host}:{parts.port}"
