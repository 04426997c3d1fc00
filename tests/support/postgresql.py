"""A PostgreSQL server on loopback, for tests of Dagster's storage."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from benchmarks.servers import postgresql as servers
from support.skipping import give_up

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def postgresql() -> Iterator[int]:
    """Run a server until the end of the block, and yield its port. The test is skipped without PostgreSQL."""
    with ExitStack() as stack:
        try:
            port, _ = stack.enter_context(servers.postgresql())
        except FileNotFoundError as error:
            give_up(str(error))
        yield port
