"""The settings of a typed table: the only place where one is declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from kinesis_assets.dagster.settings.derived_settings import DerivedTableSettings, asset_key
from kinesis_assets.dagster.settings.settings_base import (
    SchemaFrom,
    Settings,
    Texts,
    map_schema,
    naming,
    valid,
)
from kinesis_assets.dagster.settings.yaml_model import map_fields
from kinesis_assets.decoders.decoder import RegisteredName
from kinesis_assets.decoders.formats import (
    DOTTED,
    FORMATS,
    SchemaKind,
    descriptions,
    find_format,
    map_kind,
    names_with,
)
from kinesis_assets.decoders.json_paths import Only, parse_path
from kinesis_assets.decoders.split import SplitMode
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.role import check_role_settings
from kinesis_assets.schemas.ddl import KEEPING, KEEPING_DOCUMENTS, RECORD
from kinesis_assets.schemas.registries import check_connection
from kinesis_assets.table.schema import COLUMNS

if TYPE_CHECKING:
    from kinesis_assets.dagster.settings.check_settings import DerivedChecks
    from kinesis_assets.decoders.formats import Format

_VERSION = Annotated[int, Field(ge=1)] | SkipJsonSchema[None]
_LATEST = "Number of the version. By default the latest one, which is read at each step of a run."
_MESSAGE = "Full name of the Protobuf message. A registered schema with a single message does not need it."


class RegisteredSchema(Settings):
    """A schema of the Glue Schema Registry."""

    registry: str = Field(
        min_length=1, description="Name of the registry, in its account and region.", examples=["shop"]
    )
    name: str = Field(min_length=1, description="Name of the schema.", examples=["orders"])
    version: _VERSION = Field(default=None, description=_LATEST, examples=[3])
    message: str | SkipJsonSchema[None] = Field(default=None, description=_MESSAGE, examples=["shop.Order"])


class SubjectSchema(Settings):
    """A schema of a registry with the API of Confluent's Schema Registry."""

    subject: str = Field(min_length=1, description="Subject of the schema.", examples=["orders-value"])
    version: _VERSION = Field(default=None, description=_LATEST, examples=[3])
    message: str | SkipJsonSchema[None] = Field(default=None, description=_MESSAGE, examples=["shop.Order"])


class ProtobufSchema(Settings):
    """A message of a descriptor set."""

    file: str = Field(
        min_length=1,
        description="Path of a descriptor set, relative to the folder of the YAML, as protoc writes it with "
        "--include_imports and --descriptor_set_out.",
        examples=["shop.desc"],
    )
    message: str = Field(min_length=1, description=_MESSAGE, examples=["shop.Order"])


class RegistrySettings(Settings):
    """How to connect to the Glue Schema Registry: the arguments of `GlueRegistry`."""

    region_name: str | SkipJsonSchema[None] = Field(
        default=None, description="AWS region of the registry, as in boto3.", examples=["eu-central-1"]
    )
    endpoint_url: str | SkipJsonSchema[None] = Field(
        default=None, description="Endpoint of AWS Glue, as in boto3.", examples=["http://127.0.0.1:4566"]
    )
    profile_name: str | SkipJsonSchema[None] = Field(
        default=None,
        description="Profile of the AWS configuration, as in boto3. It must exist on Spark's executors too.",
        examples=["analytics"],
    )
    role_arn: str | SkipJsonSchema[None] = Field(
        default=None,
        description="ARN of a role that reads the registry. Driver and executors assume it with the "
        "credentials that they find. By default these credentials are used themselves.",
        examples=["arn:aws:iam::111122223333:role/schema-reader"],
    )
    external_id: str | SkipJsonSchema[None] = Field(
        default=None,
        description="External id that the trust policy of the role requires. Only with role_arn.",
        examples=["shop-4711"],
    )
    session_name: str | SkipJsonSchema[None] = Field(
        default=None,
        description="Name of the sessions of the role, as in AWS CloudTrail. Only with role_arn.",
        examples=["orders-production"],
    )

    @model_validator(mode="after")
    def _check_role(self) -> Self:
        check_role_settings(self.role_arn, self.external_id, self.session_name)
        return self


class ConfluentSettings(Settings):
    """How to connect to a registry with the API of Confluent's Schema Registry, or a folder in its place."""

    url: str | SkipJsonSchema[None] = Field(
        default=None, description="Address of the registry.", examples=["https://registry.example:8081"]
    )
    username: str | SkipJsonSchema[None] = Field(
        default=None,
        description="User name for HTTP basic authentication, or an API key.",
        examples=["orders"],
    )
    password: str | SkipJsonSchema[None] = Field(
        default=None,
        description="Password, or the secret of the API key. Driver and executors use it.",
        examples=["{{ env.REGISTRY_PASSWORD }}"],
    )
    folder: str | SkipJsonSchema[None] = Field(
        default=None,
        description="Path of a folder with schemas in place of a registry, relative to the folder of the "
        "YAML. The name of each file is the id of its schema: 17.avsc, 18.json or 19.proto.",
        examples=["schemas"],
    )

    @model_validator(mode="after")
    def _check_connection(self) -> Self:
        if (self.url is None) == (self.folder is None):
            raise InvalidInput("url and folder: exactly one of them is required")
        if self.url is not None:
            check_connection(self.url, self.username, self.password)
            if find_spec("confluent_kafka") is None:
                raise InvalidInput(
                    "url: a registry needs confluent-kafka: pip install 'kinesis-assets[confluent]'"
                )
        elif self.username is not None or self.password is not None:
            raise InvalidInput("username and password: only with a url; remove them")
        return self


_SCHEMAS: Mapping[SchemaKind, type[RegisteredSchema | SubjectSchema | ProtobufSchema]] = {
    SchemaKind.PROTOBUF: ProtobufSchema,
    SchemaKind.REGISTERED: RegisteredSchema,
    SchemaKind.SUBJECT: SubjectSchema,
}

_REGISTRIES: Mapping[SchemaKind, type[RegistrySettings | ConfluentSettings]] = {
    SchemaKind.REGISTERED: RegistrySettings,
    SchemaKind.SUBJECT: ConfluentSettings,
}
"""The connections of registries, by the kind of their schemas."""


def schema_map(
    schema: str | Mapping[str, Any] | None,
) -> RegisteredSchema | SubjectSchema | ProtobufSchema | None:
    """Return the map that the setting `schema` is; None if it is none."""
    if not isinstance(schema, Mapping):
        return None
    with naming("schema"):
        return _SCHEMAS[map_kind(schema)](**schema)


def registry_kind(registry: Mapping[str, Any]) -> SchemaKind:
    """Return the kind of the schemas in the registry to which the setting `registry` connects."""
    is_confluent = any(name in ConfluentSettings.model_fields for name in registry)
    return SchemaKind.SUBJECT if is_confluent else SchemaKind.REGISTERED


def _check_registry(registry: Mapping[str, Any]) -> None:
    settings = _REGISTRIES[registry_kind(registry)]
    names = settings.model_fields
    if unknown := sorted(registry.keys() - names.keys()):
        raise InvalidInput(
            f"registry: unknown setting {unknown[0][:80]}; the settings are {', '.join(names)}"
        )
    with naming("registry"):
        settings(**registry)


def _map(*alternatives: type[Settings]) -> dict[str, Any]:
    """Return the JSON schema of a map that has the fields of one of some settings."""
    found = {"type": "object", "properties": map_fields(*alternatives), "additionalProperties": False}
    schemas = map(map_schema, alternatives)
    required = [{"required": schema["required"]} for schema in schemas if "required" in schema]
    return found | {"anyOf": required} if required else found


SchemaField = Annotated[
    str | Mapping[str, str | int] | None,
    valid(schema_map),
    SchemaFrom(lambda: {"anyOf": [{"type": "string"}, _map(*_SCHEMAS.values()), {"type": "null"}]}),
]

RegistryField = Annotated[
    Mapping[str, str], valid(_check_registry), SchemaFrom(lambda: _map(*_REGISTRIES.values()))
]


def _check_unnest(path: str) -> None:
    with naming("unnest"):
        parse_path(path)


def check_compared(setting: str, values: Mapping[str, Any]) -> None:
    """Check the values with which fields and columns of the source are compared, by their path."""
    types = {column.name: column.type for column in COLUMNS if column.type in _COMPARED}
    with naming(setting):
        for name, wanted in Only(values).columns.items():
            if name not in types:
                raise InvalidInput(
                    f"{RECORD}.{name} is no text and no integer of the source; give one of "
                    f"{', '.join(types)}, or use where"
                )
            kind = _COMPARED[types[name]]
            if other := [each for each in wanted if each is not None and type(each) is not kind]:
                raise InvalidInput(f"{RECORD}.{name} is a {types[name]}, and {other[0]!r} is not; correct it")


def _check_only(values: Mapping[str, Any]) -> None:
    if values:
        check_compared("only", values)


_COMPARED = {"string": str, "bigint": int}
"""By the types of columns of the source that `only` can name, the types of their values."""


def _schema_of_only() -> dict[str, Any]:
    scalars = ["string", "number", "boolean", "null"]
    values = {"type": [*scalars, "array"], "items": {"type": scalars}}
    return {"type": "object", "additionalProperties": values}


def _schema_of_format() -> dict[str, Any]:
    names = {"type": "string", "enum": [*FORMATS]}
    return {"anyOf": [names, {"type": "string", "pattern": f"^{DOTTED}$"}, {"type": "null"}]}


def require_format(format_: Format, setting: str, has: Callable[[Format], bool], value: str = "") -> None:
    """Raise `InvalidInput` if a setting, or one of its values, is not for a format."""
    if not has(format_):
        raise InvalidInput(
            f"{setting}:{value} only with the format {names_with(has)}; remove it, or correct the format"
        )


_NEEDS_FORMAT = "only with a format; set format, or remove it"


class NamedTable(Settings):
    """The name of a table's asset."""

    name: Annotated[str, asset_key("name")] = Field(
        description="Asset key of the table.", examples=["orders"]
    )


class DecodingSettings(Settings):
    """How records become rows of a typed table."""

    format: Annotated[str | None, valid(find_format), SchemaFrom(_schema_of_format)] = Field(
        default=None,
        description=f"Format of the records: {descriptions()}; or the dotted name of a decoder class of your "
        "own, see docs/decoders.md. By default the rows of the source are not decoded.",
        examples=["json"],
    )
    schema_: SchemaField = Field(
        default=None,
        alias="schema",
        description="Type of the decoded records, as DDL of Spark; or the path of an Avro schema (.avsc) or "
        "of a JSON Schema (.json), relative to the folder of the YAML; or a map: with glue, of a schema in "
        "the Glue Schema Registry; with confluent, of a subject; with protobuf, of a message in a descriptor "
        "set. Required with a format. With avro it must be an Avro schema. The defaults and aliases of an "
        "Avro schema apply to records that were written with another one.",
        examples=["order_id BIGINT, amount DOUBLE", "orders.avsc", {"registry": "shop", "name": "orders"}],
    )
    registry: RegistryField = Field(
        default={},
        description="Connection to the Glue Schema Registry. By default the chain of the AWS SDK applies, "
        "also if the source has a role. With confluent, the address of the registry, or a folder of schemas.",
        examples=[{"region_name": "eu-central-1"}],
    )
    compression: Literal["gzip", "zstd", "snappy", "auto"] | None = Field(
        default=None,
        description="Compression of each record: gzip, which includes zlib; zstd; snappy, a block or its "
        "framing format; or auto: gzip, zstd or the framing format of snappy if the first bytes show it, and "
        "otherwise none.",
        examples=["gzip"],
    )
    split: SplitMode | None = Field(
        default=None,
        description="How a record is split into documents, each of which is decoded on its own: lines, one "
        "document each; documents, JSON documents one after the other; or array, the elements of a JSON "
        "array. By default a record is one document. The compression is that of the record.",
        examples=["lines"],
    )
    unnest: Annotated[str | None, valid(_check_unnest)] = Field(
        default=None,
        description="Path of an array in a JSON document. Each element becomes a document: the one around "
        "it, with the element in place of the array. So the schema has the type of an element there.",
        examples=["logEvents"],
    )
    only: Annotated[Mapping[str, Any], valid(_check_only), SchemaFrom(_schema_of_only)] = Field(
        default={},
        description="Which documents are decoded: by the path of a field, or of a column of the source such "
        "as _record.partition_key, the value that it must have, or a list of values. Other documents are "
        "left out, and do not count as bad records. Values are compared as those of JSON, and a missing "
        "field is null. Write a name with a dot within backticks.",
        examples=[{"detail-type": ["Order Placed", "Order Canceled"], "_record.partition_key": "shop"}],
    )
    select: Texts = Field(
        default=(),
        description="Columns of the table, as expressions in Spark SQL over the decoded fields and the "
        "columns of the source, such as shard_id; * are all fields. A column of the source with the name of "
        "a field is in _record, as in _record.stream. By default the table has all fields. A record for "
        "which an expression fails, as a cast of 0000-00-00 to a date does, is a bad record; without a "
        "format it fails the run. try_cast and similar functions return null instead.",
        examples=[["*", "CAST(amount AS DECIMAL(10, 2)) AS price", "approximate_arrival_timestamp"]],
    )
    where: str | None = Field(
        default=None,
        description="Condition in Spark SQL over the same columns. Records for which it is not true are left "
        "out, before keys are compared: a row of the table stays if a later version of it is left out. Use "
        "delete_where to delete it.",
        examples=["type = 'order'"],
    )
    on_bad_record: Literal["keep", "separate", "fail"] = Field(
        default="keep",
        description="What to do with a record that cannot be decoded, or for which an expression of select "
        "or where fails: keep it in the table, in one row with null in all columns but error, shard_id, "
        "sequence_number, sub_sequence_number and data, and document_number if it is one of several; add it "
        "to a separate table, which has the same name with _errors at its end and is an asset of its own; or "
        "fail the run.",
        examples=["separate"],
    )

    @property
    def format_found(self) -> Format | None:
        """The format of the records; None if they are not decoded."""
        return None if self.format is None else find_format(self.format)

    @property
    def multiplies(self) -> bool:
        """Whether a record may become several rows or none, which then have a `document_number`."""
        format_ = self.format_found
        is_split = self.split is not None or self.unnest is not None
        is_filtered = bool(self.only) and Only(self.only).multiplies
        return format_ is not None and (is_split or is_filtered or format_.multiplies)

    @property
    def keeping(self) -> tuple[str, ...]:
        """The columns by which a record is kept that cannot be decoded; none if it is not kept."""
        if self.format is None or self.on_bad_record != "keep":
            return ()
        return KEEPING_DOCUMENTS if self.multiplies else KEEPING

    @property
    def registered_schema(self) -> RegisteredName | None:
        """The schema of a registry; None if the schema is not there."""
        match schema_map(self.schema_):
            case RegisteredSchema() as schema:
                return RegisteredName(schema.registry, schema.name, schema.version, schema.message)
            case SubjectSchema() as schema:
                return RegisteredName("", schema.subject, schema.version, schema.message)
        return None

    @property
    def message(self) -> ProtobufSchema | None:
        """The message of a descriptor set; None for another schema."""
        schema = schema_map(self.schema_)
        return schema if isinstance(schema, ProtobufSchema) else None

    @property
    def follows_registry(self) -> bool:
        """Whether the columns are those of the latest version of a schema of a registry."""
        schema = self.registered_schema
        return schema is not None and schema.number is None

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        format_ = self.format_found
        if format_ is None:
            for name in ("schema", "registry", "compression", "split", "unnest", "only"):
                if getattr(self, "schema_" if name == "schema" else name):
                    raise InvalidInput(f"{name}: {_NEEDS_FORMAT}")
            if self.on_bad_record != "keep":
                raise InvalidInput(f"on_bad_record: {_NEEDS_FORMAT}")
            return self
        if self.schema_ is None:
            raise InvalidInput("schema: required with a format")
        format_.check_schema(self.schema_)
        format_.check_extra()
        if self.split is not None:
            require_format(format_, "split", lambda each: self.split in each.splits, f" {self.split}")
        if self.unnest is not None:
            require_format(format_, "unnest", lambda each: each.is_json and each.changes is None)
        if self.only and Only(self.only).multiplies:
            require_format(format_, "only", lambda each: each.is_json, " of a path")
        return self

    @model_validator(mode="after")
    def _check_registry(self) -> Self:
        format_ = self.format_found
        if format_ is None:
            return self
        if self.registry:
            require_format(format_, "registry", lambda each: registry_kind(self.registry) in each.schemas)
        elif SchemaKind.SUBJECT in format_.schemas:
            raise InvalidInput(
                f"registry: required with the format {format_.name}; give its url, or a folder of schemas"
            )
        if self.registered_schema is not None and "folder" in self.registry:
            raise InvalidInput(
                "schema: a subject is read from a registry, and not from a folder; give the url of the "
                "registry, or the schema as DDL or a file"
            )
        return self


class TableSettings(DecodingSettings, DerivedTableSettings, NamedTable):
    """All settings of a typed table: the fields of the YAML of `KinesisTableComponent`."""

    @property
    def checks_of_table(self) -> DerivedChecks:
        """The checks that the table has, see `DerivedSettings`."""
        checks = super().checks_of_table
        return checks.without(["bad_records"], "only with a format") if self.format is None else checks

    @model_validator(mode="before")
    @classmethod
    def _of_changes(cls, settings: Any) -> Any:
        """Add the defaults that the format of changes of a database has in a table with a key."""
        name = settings.get("format")
        changes = FORMATS[name].changes if name in FORMATS else None
        if changes is None or not settings.get("key"):
            return settings
        defaults = {"order_by": changes.order_by, "delete_where": changes.delete_where}
        return defaults | settings

    @model_validator(mode="after")
    def _check_upstream(self) -> Self:
        if self.format is not None and self.upstream is not None:
            raise InvalidInput(
                "format: only without an upstream table, whose rows are decoded already; remove one of them"
            )
        return self

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.format is None and self.max_bad_share is not None:
            raise InvalidInput(f"max_bad_share: {_NEEDS_FORMAT}")
        if self.upstream == self.name:
            raise InvalidInput(
                f"upstream: {self.name} is the table itself; give the one whose rows it consumes"
            )
        if self.key and {*self.key} <= {*self.keeping}:
            raise InvalidInput(
                "key: a record that cannot be decoded would replace others; add a column of its fields, or "
                "set on_bad_record to separate"
            )
        return self
