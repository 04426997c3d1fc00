"""`infer`: propose the YAML of a typed table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import yaml

from kinesis_assets.cli.options import project_of, stream_options
from kinesis_assets.errors import InvalidInput
from kinesis_assets.errors.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kinesis_assets.schemas.inference import Inference

_MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
_GLUE = (b"\x03\x00", b"\x03\x05")


@click.command()
@stream_options
@click.option(
    "--sample",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="Maximum number of records to read, from the newest files of the table.",
)
def infer(*, sample: int, **stream: Any) -> None:
    """Propose the YAML of a typed table from a sample of a stream's raw table.

    The records must be JSON. Numbers, booleans, dates and timestamps in ISO 8601, structs and arrays are
    recognized. A field with values of different types becomes VARIANT, and its column has their JSON text.
    """
    from kinesis_assets.derive.sample import sample_payloads  # noqa: PLC0415
    from kinesis_assets.schemas.inference import infer_type  # noqa: PLC0415  # each command imports only what it needs

    project = project_of(**stream)
    with project.open_stream() as opened:
        table = opened.settings.table
        snapshot = opened.table.snapshot()
        snapshot.refuse_other_stream(opened.client.describe().identity)
        payloads = sample_payloads(opened.table, snapshot, sample)
    compression = _compression(payloads)
    inferred = infer_type(_decompressed(payloads, compression))
    if not inferred.fields:
        glue = sum(payload.startswith(_GLUE) for payload in payloads)
        hint = (
            "they have the header of the Glue Schema Registry, so use format: glue"
            if glue
            else "give the format and the schema yourself"
        )
        raise InvalidInput(
            f"table {table}: none of {len(payloads)} records is a JSON object with fields; {hint}"
        )
    attributes = {
        "name": f"{project.stream}_typed",
        "source": stream["stream"],
        "table": f"{table.rstrip('/')}_typed",
        "format": "json",
        **({"compression": compression} if compression else {}),
        **_columns(inferred),
    }
    click.echo("".join(f"# {without_secrets(line)}\n" for line in _notes(table, inferred)), nl=False)
    click.echo(_dump({"type": "kinesis_assets.KinesisTableComponent", "attributes": attributes}), nl=False)


def _columns(inferred: Inference) -> dict[str, Any]:
    """Return the schema; and the columns, if some fields need another name."""
    from kinesis_assets.schemas.ddl import column_names, columns, readable  # noqa: PLC0415  # as above

    names = column_names([each.name for each in inferred.fields])
    schema: dict[str, Any] = {"schema": _Lines(columns(inferred.fields, ",\n"))}
    if all(name == column for name, column in names.items()):
        return schema
    return schema | {
        "select": [
            readable(name) if name == column else f"{readable(name)} AS {readable(column)}"
            for name, column in names.items()
        ]
    }


def _notes(table: str, inferred: Inference) -> Iterator[str]:
    total = inferred.documents + inferred.others
    yield f"Proposed from {total} records of {table}. Check it before you use it."
    if inferred.others:
        yield f"{inferred.others} of them are not JSON objects, and would be kept as records with an error."
    yield from inferred.notes
    yield "Add key and order_by to keep only the newest row of each key."


def _compression(payloads: Sequence[bytes]) -> str | None:
    for name, magic in _MAGIC.items():
        if 2 * sum(payload.startswith(magic) for payload in payloads) > len(payloads):
            return name
    return None


def _decompressed(payloads: Sequence[bytes], compression: str | None) -> Iterator[bytes]:
    from kinesis_assets.decoders.compression import decompress  # noqa: PLC0415  # as above
    from kinesis_assets.decoders.decoder import MAX_BYTES, Undecodable  # noqa: PLC0415

    for payload in payloads:
        try:
            yield payload if compression is None else decompress(payload, compression, MAX_BYTES)
        except Undecodable:
            yield b""


class _Lines(str):
    """Text that YAML shows line by line."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    pass


_Dumper.add_representer(
    _Lines, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")
)


def _dump(content: dict[str, Any]) -> str:
    return str(yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))
