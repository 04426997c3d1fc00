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
_NAMES = {
    "avro": ["Avro"],
    "avro_container": ["AvroContainer"],
    "chain": ["decode"],
    "compression": ["AutoDecompress", "Gzip", "Snappy", "Zstd"],
    "confluent": ["Confluent", "ConfluentRegistry"],
    "debezium": ["Debezium"],
    "decoder": ["Decoder", "DecoderSettings", "Decoding", "Undecodable"],
    "delimited": ["Csv", "Tsv"],
    "dms": ["DMS"],
    "dynamodb": ["DynamoDB"],
    "glue": ["Glue", "GlueRegistry"],
    "json_documents": ["Json"],
    "json_paths": ["Only", "Unnest"],
    "projection": ["from_json", "typed_columns"],
    "protobuf": ["Protobuf"],
    "registered_payloads": ["SchemaVersion"],
    "spark_types": ["converter", "parse_type"],
    "split": ["Split"],
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

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
