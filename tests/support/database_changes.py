"""Changes of databases, decoded in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.spark_types import value_type

if TYPE_CHECKING:
    from kinesis_assets.decoders.database_changes import ChangeDecoder


def rows_of(decoder: ChangeDecoder, *documents: Any) -> list[dict[str, Any] | str]:
    """Return the rows of documents, or the reason why one cannot be decoded, without fields that are null.

    Documents that are not bytes are written as JSON.
    """
    ready = decoder.resolved()
    read = ready.make_reader()
    _, arrow_type = value_type(ready.spark_type)
    found: list[dict[str, Any] | str] = []
    for document in documents:
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        try:
            rows = pa.array(read(data), arrow_type).to_pylist(maps_as_pydicts="strict")
        except Undecodable as error:
            found.append(str(error))
        else:
            found += [{name: value for name, value in row.items() if value is not None} for row in rows]
    return found
