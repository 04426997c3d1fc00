"""`compare`: the proof that another system's table has the records of a stream."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import FAILED, SPARK, SecondsRange, json_option, project_of, stream_options
from kinesis_assets.cli.output import print_rows, progress_bar

if TYPE_CHECKING:
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.operations.compare.comparison import Differences, Rules
    from kinesis_assets.operations.compare.stream_range import StreamRange, Window

_UTC = "UTC"

_MAX_MARGIN = 366 * 86_400
"""No stream keeps records for longer."""


@click.command()
@stream_options("calls_per_second", *SPARK, table=False)
@click.option(
    "--with",
    "other",
    required=True,
    metavar="TABLE",
    help="The other system's table: a path or URI, or a name that Spark knows (without a slash).",
)
@click.option("--format", "format_", help="Format of the files at the path, as for Spark. [default: delta]")
@click.option(
    "--key",
    "keys",
    multiple=True,
    required=True,
    help="What identifies a record in the table, in Spark SQL. Repeatable. Either the shard id, the sequence "
    "number and, if the table has it, the sub-sequence number; or, with --stream-key, anything.",
)
@click.option(
    "--stream-key",
    "stream_keys",
    multiple=True,
    help="The same of the stream, over the columns of a record, as in get_json_object(CAST(data AS STRING), "
    "'$.id'). One for each --key.",
)
@click.option("--value", "values", multiple=True, help="What else is compared, of the table. Repeatable.")
@click.option(
    "--stream-value",
    "stream_values",
    multiple=True,
    help="The same of the stream. One for each --value. [default: data]",
)
@click.option(
    "--latest-by",
    multiple=True,
    help="The table has only the last record of each key: the one with the greatest value of this, of the "
    "stream, and then with the greatest sequence number. Repeatable.",
)
@click.option("--where", help="The rows of the table that are compared, as a condition. [default: all]")
@click.option(
    "--from",
    "start",
    default="TRIM_HORIZON",
    show_default=True,
    help="Start, inclusive: a time such as 2026-01-31T12:00:00Z, or a position or map as in `start`.",
)
@click.option(
    "--to",
    "end",
    help="End: a time, exclusive, or a position or map, of which the record is included after "
    "AFTER_SEQUENCE_NUMBER. [default: now]",
)
@click.option(
    "--margin",
    type=SecondsRange(min=0, max=_MAX_MARGIN),
    default=3600,
    show_default=True,
    metavar="SECONDS",
    help="How long before and after the range a record may have arrived whose row is no difference. Not "
    "before a start that is a position. Only with --stream-key: otherwise the key says where its record is.",
)
@click.option(
    "--examples",
    type=click.IntRange(0, 1000),
    default=10,
    show_default=True,
    help="Maximum number of examples of each kind of difference.",
)
@json_option
def compare(
    *,
    other: str,
    format_: str | None,
    keys: tuple[str, ...],
    stream_keys: tuple[str, ...],
    values: tuple[str, ...],
    stream_values: tuple[str, ...],
    latest_by: tuple[str, ...],
    where: str | None,
    start: str,
    end: str | None,
    margin: float,
    examples: int,
    as_json: bool,
    **stream: Any,
) -> None:
    """Compare a range of a stream with another system's table.

    A record can be missing in the table, and a row can be doubled, different, or extra: without a record.
    Rows of records outside of the range are counted, but are no differences. Expressions see times in UTC.
    The stream may run: records that arrive after the end are not expected. Nothing is written. The exit code
    is 0 only if there are records with keys, and no difference.
    """
    from kinesis_assets.operations.compare.comparison import Rules, no_proof, notes
    from kinesis_assets.operations.compare.stream_range import Window

    rules = Rules(keys, stream_keys, values, stream_values, latest_by, where)
    project = project_of(**stream)
    with project.open_stream() as opened:
        window = Window.of(start, end, opened.client.describe().service_time)
        with progress_bar("comparing", as_json=as_json):
            around = None if rules.is_by_position else timedelta(seconds=margin)
            planned, found = _compare(
                opened, other, format_, rules=rules, window=window, margin=around, examples=examples
            )
    rows = _rows(project.stream, planned, found)
    if as_json:
        print_rows(rows, as_json=True)
    else:
        _print_table(rows)
    doubt = no_proof(found, rules)
    for note in [doubt] if doubt else notes(found, rules):
        click.echo(f"{note}.", err=True)
    sys.exit(0 if found.is_equal and doubt is None else FAILED)


def _compare(
    opened: OpenStream,
    other: str,
    format_: str | None,
    *,
    rules: Rules,
    window: Window,
    margin: timedelta | None,
    examples: int,
) -> tuple[StreamRange, Differences]:
    from kinesis_assets.derive.other_tables import read_other_table
    from kinesis_assets.operations.compare.comparison import check_expressions, mentioned
    from kinesis_assets.operations.compare.differences import find_differences
    from kinesis_assets.operations.compare.stream_range import no_records, plan_range, read_range
    from kinesis_assets.spark.pyspark_internals import unlogged_analysis_errors
    from kinesis_assets.spark.session import SessionInTimeZone, wrap_spark_errors

    with (
        wrap_spark_errors(f"stream {opened.name}"),
        unlogged_analysis_errors(),
        SessionInTimeZone(opened.start_spark(), _UTC).active() as spark,
    ):
        nothing = no_records(spark)
        check_expressions(nothing, rules.of_stream)
        needed = partial(mentioned, expressions=rules.of_table)
        rows = read_other_table(spark, other, format_, needed=needed, role=opened.role)
        check_expressions(rows, rules.of_table)
        # Planned after the table was opened, so that all of its rows are of records that had arrived.
        planned = plan_range(opened.client, window, margin, latest=bool(rules.latest_by))
        columns = mentioned(nothing.columns, rules.of_stream)
        records = read_range(spark, opened.client, planned.shards, columns)
        found = find_differences(records, rows, rules, shards=planned.start.keys(), examples=examples)
    summary = opened.client.describe()
    summary.require(planned.listing.summary.identity, "while it was compared; run the comparison again")
    return planned, found


def _rows(stream: str, planned: StreamRange, found: Differences) -> list[dict[str, Any]]:
    """Return one row for each shard, with its examples, and one for the rows whose shard is not known."""
    from kinesis_assets.operations.compare.comparison import Counts

    of_tables = sorted(found.shards.keys() - planned.start.keys(), key=lambda shard: (shard is None, shard))
    return [
        {
            "stream": stream,
            "shard": shard,
            "from": shard and _text(planned.start.get(shard)),
            "to": shard and _text(planned.end.get(shard)),
            **asdict(found.shards.get(shard, Counts())),
            "examples": [asdict(example) for example in found.examples if example.shard == shard],
        }
        for shard in [*planned.start, *of_tables]
    ]


def _text(position: Position | None) -> str | None:
    return None if position is None else str(position)


def _print_table(rows: list[dict[str, Any]]) -> None:
    """Print the counts of the shards, and the examples below."""
    examples = [example for row in rows for example in row["examples"]]
    print_rows([{name: row[name] for name in row if name != "examples"} for row in rows], as_json=False)
    if examples:
        click.echo()
    keys = (["null" if part is None else part for part in example["key"]] for example in examples)
    print_rows([example | {"key": key} for example, key in zip(examples, keys, strict=True)], as_json=False)
