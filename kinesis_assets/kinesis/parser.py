"""What has the AWS SDK parse GetRecords answers into pages.

botocore parses GetRecords into dicts one field at a time, which costs ten times the CPU of everything else on
the way. Its response parser is a component of its own, so this one replaces it for GetRecords alone: signing,
credentials, endpoints and retries stay botocore's.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from botocore.parsers import JSONParser, ResponseParserFactory

from kinesis_assets.kinesis.pages import IncompleteBody, Page

_decoder = msgspec.json.Decoder(Page)


class _PageParser(JSONParser):  # type: ignore[misc]  # botocore has no types
    def parse(self, response: dict[str, Any], shape: Any) -> dict[str, Any]:
        succeeded = response["status_code"] < HTTPStatus.MULTIPLE_CHOICES
        if not succeeded or getattr(shape, "name", None) != "GetRecordsOutput":
            parsed: dict[str, Any] = super().parse(response, shape)
            return parsed
        page: Page | IncompleteBody
        try:
            page = _decoder.decode(response["body"])
        except msgspec.MsgspecError as error:
            page = IncompleteBody(str(error))
        headers = {name.lower(): value for name, value in response["headers"].items()}
        metadata = {"HTTPStatusCode": response["status_code"], "HTTPHeaders": headers}
        return {"Page": page, "ResponseMetadata": metadata}


class PageParserFactory(ResponseParserFactory):  # type: ignore[misc]  # botocore has no types
    """To be registered as a botocore session's `response_parser_factory`."""

    def create_parser(self, protocol_name: str) -> JSONParser:
        """The parser of a client's answers; Kinesis speaks the json protocol only."""
        return _PageParser() if protocol_name == "json" else super().create_parser(protocol_name)
