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
from botocore.auth import _host_from_url
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from botocore.parsers import JSONParser, ResponseParserError

from kinesis_assets.kinesis.http_endpoint import HttpEndpoint
from kinesis_assets.kinesis.pages import IncompleteBody
from kinesis_assets.kinesis.waits import by_a_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.kinesis.http_answer import HttpAnswer
    from kinesis_assets.kinesis.room import Seat
    from kinesis_assets.kinesis.waits import Waits

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


class _Request(AWSRequest):  # type: ignore[misc]  # botocore has no types
    """The SDK's, which prepares all of itself for each look at its body; this one has it as it is."""

    @property
    def body(self) -> bytes:
        return self.data  # type: ignore[no-any-return]


def data_endpoint(client: Any, stream_arn: str | None) -> str:
    """Where the SDK sends the calls that read a stream: to the endpoint of the account in its ARN.

    Without an ARN it is the region's. A custom endpoint is used as it is for both.
    Source: botocore's endpoint rules of Kinesis, endpoint-rule-set-1, which know StreamARN.
    """
    resolver = getattr(client, "_ruleset_resolver", None)  # there is no public way to it
    if stream_arn is None or resolver is None:
        return str(client.meta.endpoint_url)
    model = client.meta.service_model.operation_model("GetRecords")
    context = {"client_config": client.meta.config}
    return str(resolver.construct_endpoint(model, {"StreamARN": stream_arn}, context).url)


class DirectCall(Generic[AnswerT_co]):
    """An operation, made with a botocore client's own parts; it is made once, never tried again.

    Args:
        client: Of Kinesis.
        operation: Its name.
        wire: What its answers are as JSON.
        endpoint_url: Where to; the client's endpoint by default.

    Raises:
        ValueError: The endpoint's URL, or that of a proxy, cannot be meant.

    Attributes:
        operation: Its name.
    """

    def __init__(
        self, client: Any, operation: str, wire: type[Wire[AnswerT_co]], endpoint_url: str | None = None
    ) -> None:
        self.operation = operation
        self._decoder = msgspec.json.Decoder(wire)
        self._signer = client._request_signer  # noqa: SLF001  # botocore has no public way to it
        model = client.meta.service_model
        self._shape = model.operation_model(operation).output_shape
        endpoint = endpoint_url or client.meta.endpoint_url
        self._url = endpoint if urlsplit(endpoint).path else f"{endpoint}/"
        self._endpoint = HttpEndpoint(client._endpoint.http_session, self._url, LARGEST_BODY)  # noqa: SLF001
        self._headers = {
            "Host": _host_from_url(self._url),  # else the signer finds it anew for each call
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
        request = _Request("POST", self._url, self._headers, _encoder.encode(arguments))
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

    def _sign(self, request: _Request) -> Waits[None]:
        """Near the credentials' end one call gets new ones over the network; the others sign with the old
        ones.
        """
        needed = getattr(self._signer._credentials, "refresh_needed", None)  # noqa: SLF001
        if needed is not None and needed():
            yield from by_a_thread(lambda: self._signer.sign(self.operation, request))
        else:
            self._signer.sign(self.operation, request)

    def _refusal(self, answer: HttpAnswer) -> dict[str, Any]:
        parsed = {"status_code": answer.status, "headers": answer.headers, "body": bytes(answer.body)}
        refusal: dict[str, Any] = {}
        # What is no answer of the service's, as of a proxy, can be anything.
        with suppress(ResponseParserError, ValueError, AttributeError, TypeError, KeyError):
            refusal = JSONParser().parse(parsed, self._shape)
        return {
            "Error": {"Code": str(answer.status), "Message": ""},
            "ResponseMetadata": {"HTTPStatusCode": answer.status},
        } | refusal
