"""Files with an Avro schema or a JSON Schema. They are read without Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns
from kinesis_assets.schemas.json_schema import json_schema_columns

if TYPE_CHECKING:
    from pathlib import Path


def read_schema(path: Path, *, is_avro: bool) -> tuple[str, str]:
    """Return the text of a file with an Avro schema or a JSON Schema, and the columns of its records as DDL.

    Raises:
        InvalidInput: The file cannot be read, or its schema cannot be used.
    """
    text = _text(path)
    return text, (avro_columns if is_avro else json_schema_columns)(_parsed(text))


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
