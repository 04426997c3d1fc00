"""Files with an Avro schema, a JSON Schema or a descriptor set. They are read without Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns
from kinesis_assets.schemas.json_schema import json_schema_columns

if TYPE_CHECKING:
    from pathlib import Path


def read_schema(path: Path, *, is_avro: bool) -> tuple[bytes, str]:
    """Return the content of a file with an Avro schema or a JSON Schema, and the columns of its records."""
    content = _content(path)
    try:
        schema = json.loads(content.decode())
    except UnicodeDecodeError:
        raise InvalidInput("the file cannot be read: it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the file is not JSON: {error}") from None
    return content, avro_columns(schema) if is_avro else json_schema_columns(schema)


def read_descriptors(path: Path, message: str) -> tuple[bytes, str]:
    """Return the content of a descriptor set, and the columns of one of its messages as DDL."""
    from kinesis_assets.schemas.protobuf_schema import (  # noqa: PLC0415  # other schemas need no Protobuf
        protobuf_columns,
        read_message,
    )

    content = _content(path)
    return content, protobuf_columns(read_message(content, message))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"the file cannot be read: {error.strerror}") from None
