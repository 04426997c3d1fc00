"""Files with an Avro schema or a JSON Schema. They are read without Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns
from kinesis_assets.schemas.json_schema import json_schema_columns

if TYPE_CHECKING:
    from pathlib import Path


def read_columns(path: Path) -> str:
    """Return the columns that a schema file describes, as DDL.

    Args:
        path: An Avro schema (.avsc), or a JSON Schema.

    Raises:
        InvalidInput: The file cannot be read, or its schema cannot be used.
    """
    schema = _parsed(_text(path))
    return avro_columns(schema) if path.suffix == ".avsc" else json_schema_columns(schema)


def read_avro_schema(path: Path) -> tuple[str, str]:
    """Return the text of a file with an Avro schema, and what `read_columns` returns. Raises its errors."""
    text = _text(path)
    return text, avro_columns(_parsed(text))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(f"the file cannot be read: {reason}") from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the file is not JSON: {error}") from None
