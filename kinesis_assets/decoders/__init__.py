"""Decoders: DataFrame functions that turn the raw table's bytes into typed rows.

`raw.transform(decode(Gzip(), Json("order_id long, amount double")))`
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinesis_assets.decoders.avro import Avro
    from kinesis_assets.decoders.avro_container import AvroContainer
    from kinesis_assets.decoders.chain import decode
    from kinesis_assets.decoders.compression import AutoDecompress, Gzip, Snappy, Zstd
    from kinesis_assets.decoders.confluent import Confluent, ConfluentRegistry
    from kinesis_assets.decoders.debezium import Debezium
    from kinesis_assets.decoders.decoder import Decoder, DecoderSettings, Decoding, Undecodable
    from kinesis_assets.decoders.delimited import Csv, Tsv
    from kinesis_assets.decoders.dms import DMS
    from kinesis_assets.decoders.dynamodb import DynamoDB
    from kinesis_assets.decoders.glue import Glue, GlueRegistry
    from kinesis_assets.decoders.json_documents import Json
    from kinesis_assets.decoders.json_paths import Only, Unnest
    from kinesis_assets.decoders.projection import from_json, typed_columns
    from kinesis_assets.decoders.protobuf import Protobuf
    from kinesis_assets.decoders.registered_payloads import SchemaVersion
    from kinesis_assets.decoders.spark_types import converter, parse_type
    from kinesis_assets.decoders.split import Split

# Names are imported on first use, because definitions import the formats and load neither Spark nor Arrow.
_HOMES = {
    "AutoDecompress": "compression",
    "Avro": "avro",
    "AvroContainer": "avro_container",
    "Confluent": "confluent",
    "ConfluentRegistry": "confluent",
    "Csv": "delimited",
    "DMS": "dms",
    "Debezium": "debezium",
    "Decoder": "decoder",
    "DecoderSettings": "decoder",
    "Decoding": "decoder",
    "DynamoDB": "dynamodb",
    "Glue": "glue",
    "GlueRegistry": "glue",
    "Gzip": "compression",
    "Json": "json_documents",
    "Only": "json_paths",
    "Protobuf": "protobuf",
    "SchemaVersion": "registered_payloads",
    "Snappy": "compression",
    "Split": "split",
    "Tsv": "delimited",
    "Undecodable": "decoder",
    "Unnest": "json_paths",
    "Zstd": "compression",
    "converter": "spark_types",
    "decode": "chain",
    "from_json": "projection",
    "parse_type": "spark_types",
    "typed_columns": "projection",
}

__all__ = [
    "DMS",
    "AutoDecompress",
    "Avro",
    "AvroContainer",
    "Confluent",
    "ConfluentRegistry",
    "Csv",
    "Debezium",
    "Decoder",
    "DecoderSettings",
    "Decoding",
    "DynamoDB",
    "Glue",
    "GlueRegistry",
    "Gzip",
    "Json",
    "Only",
    "Protobuf",
    "SchemaVersion",
    "Snappy",
    "Split",
    "Tsv",
    "Undecodable",
    "Unnest",
    "Zstd",
    "converter",
    "decode",
    "from_json",
    "parse_type",
    "typed_columns",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
