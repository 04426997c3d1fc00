"""The Spark type of a schema that the AWS Glue Schema Registry has under a name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kinesis_assets.decoders.glue import described
from kinesis_assets.decoders.spark_types import decoded_type, parse_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns
from kinesis_assets.schemas.json_schema import json_schema_columns

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from kinesis_assets.decoders.glue import GlueRegistry

_COLUMNS = {"AVRO": avro_columns, "JSON": json_schema_columns}
"""By data format, the function that converts a definition."""


def registered_type(
    registry: GlueRegistry, registry_name: str, name: str, number: int | None = None
) -> DataType:
    """Return the type of records of a schema, as `Glue` takes it.

    All fields accept null, also those that the schema requires, because records may have been written with
    another version. The arguments are those of `GlueRegistry.named`.

    Raises:
        InvalidInput: The registry has no such version, or it has a part that no Spark type represents.
        RegistryCallFailed: The call to the registry failed.
    """
    version = registry.named(registry_name, name, number)
    what = described(registry_name, name, number)
    if version.data_format not in _COLUMNS:
        raise InvalidInput(
            f"{what} has the data format {version.data_format}; only AVRO and JSON are supported, so name "
            "another schema"
        )
    try:
        definition = json.loads(version.definition)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} is not JSON: {error}; register a correct version") from None
    try:
        return decoded_type(parse_type(_COLUMNS[version.data_format](definition)))
    except InvalidInput as error:
        raise InvalidInput(f"{what}: {error}") from None
