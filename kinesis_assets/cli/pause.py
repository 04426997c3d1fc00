"""`pause` and `resume`: stop and continue the runs of a stream, in every deployment."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kinesis_assets.cli.options import by_option, json_option, project_of, stream_options, user_name
from kinesis_assets.cli.output import print_rows
from kinesis_assets.errors import CallFailed, PauseUnreadable, PositionsUnreadable, TableOfAnotherStream

if TYPE_CHECKING:
    from collections.abc import Collection

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.run_files.pause import Pause
    from kinesis_assets.table.snapshot import TableSnapshot


@click.command()
@stream_options()
@click.option("--reason", required=True, help="Why, in one line. The UI and refused runs show it.")
@by_option
@json_option
def pause(*, reason: str, by: str | None, as_json: bool, **stream: Any) -> None:
    """Stop the runs of a stream until `resume`.

    The sensor requests no run, continuous runs end after their current commit, and any other run is refused
    before it reads or writes anything. A run that is in progress finishes its range. Maintenance, doctor,
    seek, replay and derived tables still work. Records that expire while the stream is paused are lost; the
    output has the earliest time at which that may happen. The command works while Kinesis cannot be reached.
    """
    from kinesis_assets.table.run_files import pause as pauses

    project = project_of(**stream)
    with project.open_stream() as opened:
        safe_until = _safe_until(opened)
        new = pauses.pause(
            opened.table,
            reason=reason,
            by=user_name(by),
            at=datetime.now(UTC),
            command=_resume_command(opened, pauses.RESUME),
        )
    _print(project.stream, new, paused=True, safe_until=safe_until, as_json=as_json)


@click.command()
@stream_options()
@json_option
def resume(*, as_json: bool, **stream: Any) -> None:
    """Continue the runs of a paused stream. The output has the pause that this ends, if there was one."""
    from kinesis_assets.table.run_files import pause as pauses

    project = project_of(**stream)
    with project.open_stream() as opened:
        safe_until = _safe_until(opened)
        try:
            ended, damaged = pauses.read_pause(opened.table), False
        except PauseUnreadable:
            ended, damaged = None, True
        pauses.resume(opened.table)
    if damaged:
        click.echo("The file of the pause could not be read. It was deleted.", err=True)
    elif ended is None:
        click.echo("The stream was not paused.", err=True)
    _print(project.stream, ended, paused=False, safe_until=safe_until, as_json=as_json)


_CREDENTIALS = ("profile_name", "role_arn", "external_id", "session_name")
"""The settings that say with which credentials a stream and its table are read. They are no secrets."""


def _resume_command(opened: OpenStream, command: str) -> str:
    """Return the command that resumes a stream from any folder, with the options that it needs."""
    connection = opened.kinesis
    options = {
        "--stream": opened.arn or opened.name,
        "--table": opened.table.folder.uri,
        "--region": None if opened.arn else opened.client.settings.region_name,
        "--endpoint-url": connection.endpoint_url,
    }
    words = [word for name, value in options.items() if value for word in (name, value)]
    for name in _CREDENTIALS:
        if value := getattr(connection, name):
            words += ["--set", f"{name}={value}"]
    if opened.settings.is_iceberg:
        # It has no secrets: those of a catalog are given in the environment.
        catalog = json.dumps(dict(opened.settings.catalog))
        words += ["--set", f"format={opened.settings.format}", "--set", f"catalog={catalog}"]
    return f"{command} {shlex.join(words)}"


def _safe_until(opened: OpenStream) -> datetime | None:
    """Return the time before which no unread record can expire; None if it is unknown or nothing is unread.

    Records that a catch-up is still to add count too.

    Raises:
        StreamError: The stream cannot be described, and its table does not name it.
        TableMissing: There is no table.
        TableOfAnotherStream: The table belongs to another stream.
    """
    from kinesis_assets.ingest.idle_shards import safe_until
    from kinesis_assets.ingest.plan import gaps_to_fill

    snapshot = opened.table.snapshot()
    try:
        positions = _positions(opened, snapshot)
    except PositionsUnreadable:
        return None  # which must not keep anybody from pausing
    if positions is None:
        return None
    to_fill = gaps_to_fill(snapshot, positions.identity, positions.shards)
    times = [
        safe_until(shard, to_fill.get(shard_id, ()))
        for shard_id, shard in positions.shards.items()
        if not shard.finished or shard_id in to_fill
    ]
    return None if None in times else min((time for time in times if time is not None), default=None)


def _positions(opened: OpenStream, snapshot: TableSnapshot) -> StreamPositions | None:
    """Return the positions of the stream, which its table identifies if Kinesis cannot be reached."""
    from kinesis_assets.kinesis.client import StreamClient

    # One attempt: an outage must not delay a pause.
    client = StreamClient(str(opened.client.address), opened.client.settings, attempts=1)
    try:
        identity = client.describe().identity
    except CallFailed as error:
        arn = _owner(client, opened.table.uri, snapshot.owners, error)
        click.echo(f"stream {error.stream}: {error.reason}. The table alone identified the stream.", err=True)
        return snapshot.positions_of(arn)
    return snapshot.positions(identity, or_older=True)


def _owner(client: StreamClient, table: str, owners: Collection[str], error: CallFailed) -> str:
    """Return the ARN of the stream that a table names, without the service."""
    region = client.settings.region_name
    if not owners:
        raise error
    arn, *others = owners
    if others or not client.address.may_have(arn, region):
        raise TableOfAnotherStream(
            table,
            f"belongs to {', '.join(sorted(owners))}, but the configuration names {client.address} in region "
            f"{region}, and Kinesis cannot be asked ({error.reason}); nothing was changed. Correct the "
            "stream or the region, or try again later",
        )
    return arn


def _print(
    stream: str, pause: Pause | None, *, paused: bool, safe_until: datetime | None, as_json: bool
) -> None:
    row = {
        "stream": stream,
        "paused": paused,
        "reason": pause and pause.reason,
        "by": pause and pause.by,
        "at": pause and pause.at.isoformat(timespec="seconds"),
        "safe_until": safe_until and safe_until.isoformat(),
    }
    print_rows([row], as_json=as_json)
