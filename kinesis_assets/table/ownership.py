"""Ensures that a table belongs to one stream, whose ARN is a property of the table.

The property is set when the table is created or first claimed. Delta refuses a change of the metadata if
another one came first, so if two streams claim a table at once, one wins. Their transactions would not
conflict, because these have different names. A table from an older version of this package lacks the property
until a run or a maintenance sets it; until then its streams are read from the transactions in its log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kinesis_assets.errors import TableOfAnotherStream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kinesis_assets.kinesis.stream import StreamIdentity

OWNER = "kinesis_assets.stream"
"""The table property with the ARN of the table's stream."""

DERIVED = "kinesis-derived"
"""The application id of the transaction that points at the newest commit entry of a derived table."""

WAY_OUT_OF_RECREATION = (
    "Use a new table for the new stream, or set on_recreated: restart to continue in this one"
)
"""The advice about a stream that was deleted and created again."""

_APPLICATION = re.compile(r"kinesis/([^/]+/[^/]+)(/past)?")


def application(arn: str) -> str:
    """Return the application id of a stream's positions.

    It is the same for all streams with the ARN, so runs on a deleted stream conflict with those on its
    successor.
    """
    return f"kinesis/{arn}"


def amendment_application(arn: str) -> str:
    """Return the application id of a stream's amendments."""
    return f"{application(arn)}/past"


def arns_of(applications: Iterable[str]) -> frozenset[str]:
    """Return the ARNs of the streams that application ids belong to; other writers' ids are ignored."""
    found = (_APPLICATION.fullmatch(name) for name in applications)
    return frozenset(match[1] for match in found if match is not None)


def is_application(name: str) -> bool:
    """Return whether a name is the application id of positions, of amendments, or of a derived table."""
    return name == DERIVED or _APPLICATION.fullmatch(name) is not None


def refuse_other_stream(table: str, owners: Collection[str], identity: StreamIdentity) -> None:
    """Check that a table belongs to a stream, or to none yet.

    Args:
        owners: The ARNs of the streams that the table belongs to. Only a table from an older version can have
            more than one.

    Raises:
        TableOfAnotherStream: The table belongs to another stream.
    """
    others = sorted(set(owners) - {identity.arn})
    if not others:
        return
    if identity.arn in owners:
        raise TableOfAnotherStream(
            table,
            f"has positions of {identity.arn} and of {', '.join(others)}, and a table belongs to one stream; "
            "nothing was changed. Use a new table for each stream: start it there, or copy the rows of the "
            "stream there and run `kinesis-assets adopt`",
        )
    raise TableOfAnotherStream(
        table,
        f"belongs to {', '.join(others)}, but the configuration names {identity.arn}; nothing was changed. "
        "Correct the region, the account or the stream, or use a separate table for this stream",
    )
