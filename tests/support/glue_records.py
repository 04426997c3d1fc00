"""Records with the header of the Glue Schema Registry."""

from __future__ import annotations

from io import BytesIO
from uuid import UUID

import fastavro


def framed(schema_id: str, payload: bytes) -> bytes:
    """Return a record that was written with a schema version, without compression."""
    return b"\x03\x00" + UUID(schema_id).bytes + payload


def avro(schema: object, value: object) -> bytes:
    """Return an Avro datum."""
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()
