"""Which stream a table belongs to: one, named by its ARN in the table's properties.

The property is set when the table is created or first claimed. Delta refuses a change of the metadata if
another one came first, so of two streams that claim a table at once one wins; their transactions alone have
different names and would not conflict. A table that an older version of this package made does not have the
property until a run or a maintenance sets it: until then its streams are read from its log's transactions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kinesis_assets.errors import TableOfAnotherStream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kinesis_assets.kinesis.stream import StreamIdentity

OWNER = "kinesis_assets.stream"
"""The table property that holds the ARN of the table's stream."""

_APPLICATION = re.compile(r"kinesis/([^/]+/[^/]+)(/past)?")


def application(identity: StreamIdentity) -> str:
    """The log's name for a stream's positions: one for all incarnations, so an old one's run is fenced."""
    return f"kinesis/{identity.arn}"


def past_application(identity: StreamIdentity) -> str:
    """The log's name for what was done to rows behind a stream's positions."""
    return f"{application(identity)}/past"


def arns_of(applications: Iterable[str]) -> frozenset[str]:
    """The ARNs of the streams that have transactions of these names; other writers' names are left out."""
    found = (_APPLICATION.fullmatch(name) for name in applications)
    return frozenset(match[1] for match in found if match is not None)


def refuse_another(table: str, owners: Collection[str], identity: StreamIdentity) -> None:
    """See that a table belongs to a stream, or to none yet.

    Args:
        table: The table's URI.
        owners: The ARNs of the streams it belongs to; more than one only in a table of an older version.
        identity: The stream.

    Raises:
        TableOfAnotherStream: It belongs to another stream.
    """
    others = sorted(set(owners) - {identity.arn})
    if not others:
        return
    if identity.arn in owners:
        raise TableOfAnotherStream(
            table,
            f"has positions of {identity.arn} and of {', '.join(others)}, and a table belongs to one stream; "
            "nothing was changed. Give each stream a new table: let it begin there, or copy the rows of the "
            "stream there and run `kinesis-assets adopt`",
        )
    raise TableOfAnotherStream(
        table,
        f"belongs to {', '.join(others)}, but the configuration names {identity.arn}; nothing was changed. "
        "Correct the region, the account or the stream, or give this stream a table of its own",
    )
