"""The columns of a table as in Delta's metadata, which versions of all formats use, and as those of Arrow.

Never import this module in a Spark task, see `delta.opening`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping


def arrow_schema(schema: Mapping[str, Any]) -> pa.Schema:
    """Return a schema as in Delta's metadata as one of Arrow."""
    return pa.schema(Schema.from_json(json.dumps(schema)).to_arrow())


def schema_of(columns: pa.Schema) -> dict[str, Any]:
    """Return a schema of Arrow as in Delta's metadata."""
    found: dict[str, Any] = json.loads(Schema.from_arrow(columns).to_json())
    return found
