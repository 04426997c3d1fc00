"""Decoders: DataFrame functions that turn the raw table's bytes into typed rows.

`raw.transform(decode(Gzip(), Json("order_id long, amount double")))`
"""

from __future__ import annotations

from kinesis_assets.decoders.avro import Avro
from kinesis_assets.decoders.compression import Gzip, Zstd
from kinesis_assets.decoders.decode import decode
from kinesis_assets.decoders.glue import Glue, GlueRegistry, SchemaVersion
from kinesis_assets.decoders.json_documents import Json
from kinesis_assets.decoders.typed_columns import from_json, typed_columns

__all__ = [
    "Avro",
    "Glue",
    "GlueRegistry",
    "Gzip",
    "Json",
    "SchemaVersion",
    "Zstd",
    "decode",
    "from_json",
    "typed_columns",
]
